// Makes a running process try what an attacker would who has taken it over, by way of ptrace(2): its first thread makes system
// calls that it never meant to make, and goes on. For processes that tests cannot enter themselves.
//
// usage: attempt_inside PID VICTIM FILE DIRECTORY
//
// VICTIM is a process, FILE and DIRECTORY are files that are of the user of PID. A line for each attempt: its name and "done" or
// the name of the error, as the process was told. Exit code 77: not on this machine, or not by this user. x86-64.
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSkipped = 77;
constexpr size_t kRoomBytes = 1024;
constexpr uint64_t kBelowStack = 4096;  // beyond the red zone of what was interrupted

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "attempt_inside: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// A stopped process.
class Traced {
 public:
  explicit Traced(pid_t pid) : pid_(pid) {
    if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) {
      std::fprintf(stderr, "attempt_inside: cannot trace process %d: %s\n", pid, std::strerror(errno));
      std::exit(kSkipped);
    }
    if (ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) != 0) Fail("cannot stop the process");
    Await();
    if (ptrace(PTRACE_GETREGS, pid, nullptr, &before_) != 0) Fail("cannot read its registers");
    FindCallInstruction();
    room_ = (before_.rsp - kBelowStack) & ~uint64_t{15};
    Move(kept_.data(), false);
  }
  ~Traced() {
    Move(kept_.data(), true);
    // With the number of the call that was interrupted, so that the kernel goes on with that.
    ptrace(PTRACE_SETREGS, pid_, nullptr, &before_);
    ptrace(PTRACE_DETACH, pid_, nullptr, nullptr);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  // Where `text` is in its memory during Call().
  uint64_t Put(const std::string& text) {
    std::memset(own_.data(), 0, own_.size());
    std::memcpy(own_.data(), text.data(), text.size());
    Move(own_.data(), true);
    return room_;
  }
  // The address of `bytes` zeros.
  uint64_t Zeros() { return Put(""); }

  // What a system call returns there.
  int64_t Call(long number, std::array<uint64_t, 6> arguments) {
    user_regs_struct registers = before_;
    registers.rip = call_instruction_;
    registers.rax = static_cast<uint64_t>(number);
    registers.orig_rax = UINT64_MAX;  // it is not in a call
    registers.rdi = arguments[0];
    registers.rsi = arguments[1];
    registers.rdx = arguments[2];
    registers.r10 = arguments[3];
    registers.r8 = arguments[4];
    registers.r9 = arguments[5];
    if (ptrace(PTRACE_SETREGS, pid_, nullptr, &registers) != 0) Fail("cannot set its registers");
    if (ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) != 0) Fail("cannot make it go on");
    Await();
    if (ptrace(PTRACE_GETREGS, pid_, nullptr, &registers) != 0) Fail("cannot read its registers");
    if (registers.rip != call_instruction_ + 2) Fail("it did not make the call");
    return static_cast<int64_t>(registers.rax);
  }

 private:
  void Await() {
    int status = 0;
    if (waitpid(pid_, &status, __WALL) != pid_ || !WIFSTOPPED(status)) Fail("the process ended");
  }
  // One of the code that the kernel puts into every process.
  void FindCallInstruction() {
    std::ifstream maps("/proc/" + std::to_string(pid_) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("[vdso]") == std::string::npos) continue;
      const uint64_t begin = std::stoull(line, nullptr, 16);
      const uint64_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
      std::vector<unsigned char> code(end - begin);
      const iovec here = {code.data(), code.size()};
      const iovec there = {reinterpret_cast<void*>(begin), code.size()};
      if (process_vm_readv(pid_, &here, 1, &there, 1, 0) != static_cast<ssize_t>(code.size())) Fail("cannot read its code");
      for (size_t at = 0; at + 1 < code.size(); ++at) {
        if (code[at] == 0x0f && code[at + 1] == 0x05) call_instruction_ = begin + at;
      }
    }
    if (call_instruction_ == 0) Fail("it has no code of the kernel's that makes a system call");
  }
  void Move(char* ours, bool to) {
    const iovec here = {ours, kRoomBytes};
    const iovec there = {reinterpret_cast<void*>(room_), kRoomBytes};
    const ssize_t moved = to ? process_vm_writev(pid_, &here, 1, &there, 1, 0) : process_vm_readv(pid_, &here, 1, &there, 1, 0);
    if (moved != static_cast<ssize_t>(kRoomBytes)) Fail("cannot use its stack");
  }

  const pid_t pid_;
  user_regs_struct before_{};
  uint64_t call_instruction_ = 0;
  uint64_t room_ = 0;
  std::array<char, kRoomBytes> kept_{}, own_{};
};

void Tell(const std::string& name, int64_t result) {
  std::printf("%s %s\n", name.c_str(), result >= 0 ? "done" : strerrorname_np(static_cast<int>(-result)));
}

void TryAll(Traced& process, uint64_t victim, const std::string& file, const std::string& directory) {
  const auto at = static_cast<uint64_t>(AT_FDCWD);
  const auto open = [&](const std::string& path, uint64_t flags) {
    const int64_t opened = process.Call(SYS_openat, {at, process.Put(path), flags, 0600});
    if (opened >= 0) process.Call(SYS_close, {static_cast<uint64_t>(opened)});
    return opened;
  };
  const auto socket = [&](uint64_t family, uint64_t type) {
    const int64_t made = process.Call(SYS_socket, {family, type, 0});
    if (made >= 0) process.Call(SYS_close, {static_cast<uint64_t>(made)});
    return made;
  };
  Tell("read-passwd", open("/etc/passwd", O_RDONLY));
  Tell("read-file", open(file, O_RDONLY));
  Tell("write-file", open(file, O_WRONLY));
  Tell("make-file", open(directory + "/new", O_WRONLY | O_CREAT));
  Tell("read-memory", open("/proc/" + std::to_string(victim) + "/mem", O_RDONLY));
  Tell("read-memory-of-init", open("/proc/1/mem", O_RDONLY));
  Tell("truncate", process.Call(SYS_truncate, {process.Put(file), 0}));
  Tell("chmod", process.Call(SYS_chmod, {process.Put(file), 0600}));
  Tell("socket-inet", socket(AF_INET, SOCK_STREAM));
  Tell("socket-inet6", socket(AF_INET6, SOCK_STREAM));
  Tell("socket-datagram", socket(AF_INET, SOCK_DGRAM));
  Tell("socket-unix", socket(AF_UNIX, SOCK_STREAM));
  Tell("connect", process.Call(SYS_connect, {UINT64_MAX, process.Zeros(), 16}));
  Tell("execve", process.Call(SYS_execve, {process.Put("/nonexistent"), 0, 0}));
  // Signal 0: others may be sent to every process of the same session.
  Tell("kill", process.Call(SYS_kill, {victim, 0}));
  Tell("kill-init", process.Call(SYS_kill, {1, 0}));
  Tell("setuid", process.Call(SYS_setuid, {static_cast<uint64_t>(process.Call(SYS_getuid, {}))}));
  Tell("setuid-root", process.Call(SYS_setuid, {0}));
  Tell("ptrace", process.Call(SYS_ptrace, {PTRACE_SEIZE, victim, 0, 0}));
  Tell("process_vm_readv", process.Call(SYS_process_vm_readv, {victim, 0, 0, 0, 0, 0}));
  Tell("prlimit64", process.Call(SYS_prlimit64, {victim, RLIMIT_CORE, 0, process.Zeros()}));
  Tell("setpriority", process.Call(SYS_setpriority, {PRIO_PROCESS, victim, 10}));
  Tell("map-code", process.Call(SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0}));
  Tell("type-into-terminal", process.Call(SYS_ioctl, {0, TIOCSTI, process.Put("x")}));
  Tell("io_uring_setup", process.Call(SYS_io_uring_setup, {1, process.Zeros()}));
  Tell("unshare", process.Call(SYS_unshare, {0}));
  Tell("be-dumped", process.Call(SYS_prctl, {PR_SET_DUMPABLE, 1}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: attempt_inside PID VICTIM FILE DIRECTORY\n");
    return 2;
  }
  Traced process(std::atoi(argv[1]));
  TryAll(process, std::strtoull(argv[2], nullptr, 10), argv[3], argv[4]);
  return 0;
}

#else

int main() {
  std::fprintf(stderr, "attempt_inside: for x86-64 alone\n");
  return 77;
}

#endif
