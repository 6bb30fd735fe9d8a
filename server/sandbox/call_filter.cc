#include "server/sandbox/call_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

namespace tessera {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif
// Of the calls of the x32 interface, which this filter does not know.
constexpr uint32_t kX32Bit = 0x40000000;

struct RefusedCall {
  uint32_t number;
  const char* name;
};
#define CALL(name) \
  { static_cast<uint32_t>(SYS_##name), #name }

// Refused whatever their arguments are.
constexpr RefusedCall kRefused[] = {
    // Connections. What the daemon passed and what the client sends stays usable.
    CALL(connect),
    // Other processes. pidfd_open stays: the channel waits for its client's end with one, and nothing else can be done
    // with it.
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(pidfd_getfd),
    CALL(pidfd_send_signal),
    CALL(kcmp),
    CALL(process_madvise),
    // Programs.
    CALL(execve),
    CALL(execveat),
    // What filters and rules would not see.
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(io_uring_register),
    CALL(open_by_handle_at),
    CALL(name_to_handle_at),
    // Mounts and namespaces.
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(chroot),
    CALL(unshare),
    CALL(setns),
    CALL(open_tree),
    CALL(move_mount),
    CALL(fsopen),
    CALL(fsconfig),
    CALL(fsmount),
    CALL(fspick),
    CALL(mount_setattr),
    // The machine.
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(kexec_load),
    CALL(reboot),
    CALL(swapon),
    CALL(swapoff),
    CALL(acct),
    CALL(quotactl),
    CALL(syslog),
    CALL(settimeofday),
    CALL(clock_settime),
    CALL(adjtimex),
    CALL(clock_adjtime),
    CALL(sethostname),
    CALL(setdomainname),
    CALL(bpf),
    CALL(perf_event_open),
    CALL(fanotify_init),
    CALL(personality),
    CALL(vhangup),
    CALL(lookup_dcookie),
    // Keys, users and rights.
    CALL(add_key),
    CALL(request_key),
    CALL(keyctl),
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(setfsuid),
    CALL(setfsgid),
    CALL(setgroups),
    CALL(capset),
    CALL(mknodat),
    // Names and rights of files, which Landlock leaves alone.
    CALL(fchmodat),
    CALL(fchownat),
    CALL(fchown),
    CALL(setxattr),
    CALL(lsetxattr),
    CALL(fsetxattr),
    CALL(removexattr),
    CALL(lremovexattr),
    CALL(fremovexattr),
#if defined(__x86_64__)
    CALL(fork),
    CALL(vfork),
    CALL(iopl),
    CALL(ioperm),
    CALL(modify_ldt),
    CALL(kexec_file_load),
    CALL(mknod),
    CALL(chmod),
    CALL(chown),
    CALL(lchown),
    CALL(uselib),
    CALL(ustat),
    CALL(sysfs),
#endif
};

// For the log: looked at, and refused by Landlock where the path says so.
constexpr RefusedCall kOpening[] = {
    CALL(openat),
    CALL(openat2),
#if defined(__x86_64__)
    CALL(open),
    CALL(creat),
#endif
};

constexpr RefusedCall kConditional[] = {CALL(socket), CALL(clone),  CALL(clone3),          CALL(kill),
                                        CALL(tkill),  CALL(tgkill), CALL(rt_sigqueueinfo), CALL(rt_tgsigqueueinfo)};
#undef CALL

class Program {
 public:
  explicit Program(uint32_t refuse) : refuse_(refuse) {}

  void Load(uint32_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, offset); }
  // Low word of an argument; numbers of processes, families and flags have 32 bits.
  void LoadArgument(int index) { Load(static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * index)); }
  void LoadNumber() { Load(offsetof(seccomp_data, nr)); }
  void Return(uint32_t action) { Add(BPF_RET | BPF_K, action); }
  void Refuse() { Return(refuse_); }
  void Allow() { Return(SECCOMP_RET_ALLOW); }
  // The next `count` instructions run only when the accumulator is `value`; or is not.
  void IfEqual(uint32_t value, int count) { Add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<uint8_t>(count)); }
  void IfNotEqual(uint32_t value, int count) { Add(BPF_JMP | BPF_JEQ | BPF_K, value, static_cast<uint8_t>(count), 0); }
  void IfAnyBit(uint32_t bits, int count) { Add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, static_cast<uint8_t>(count)); }
  void And(uint32_t bits) { Add(BPF_ALU | BPF_AND | BPF_K, bits); }

  Result<UniqueFd> Install(unsigned long flags) {
    sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    // SPEC_ALLOW: without it older kernels make all of the process slower against an attack on itself.
    const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
    if (result < 0) return Status::FromErrno("cannot install a filter of system calls", errno);
    return UniqueFd(result > 0 ? static_cast<int>(result) : -1);
  }

 private:
  void Add(uint16_t code, uint32_t k, uint8_t if_true = 0, uint8_t if_false = 0) {
    code_.push_back(sock_filter{code, if_true, if_false, k});
  }
  const uint32_t refuse_;
  std::vector<sock_filter> code_;
};

void AddConditions(Program& program) {
  const auto own = static_cast<uint32_t>(getpid());
  // The driver shares descriptors of its own over stream sockets with abstract names. Datagrams could be sent to others
  // without connect().
  program.IfEqual(SYS_socket, 8);
  program.LoadArgument(0);
  program.IfNotEqual(AF_UNIX, 1);
  program.Refuse();
  program.LoadArgument(1);
  program.And(0xf);
  program.IfEqual(SOCK_DGRAM, 1);
  program.Refuse();
  program.Allow();
  // Threads, not processes.
  program.IfEqual(SYS_clone, 4);
  program.LoadArgument(0);
  program.IfAnyBit(CLONE_THREAD, 1);
  program.Allow();
  program.Refuse();
  // Its flags are behind a pointer. The C library then uses clone.
  program.IfEqual(SYS_clone3, 1);
  program.Return(SECCOMP_RET_ERRNO | ENOSYS);
  // Signals to this process; signal 0 asks whether a process is there.
  for (const uint32_t call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    const bool asks = call == SYS_kill;
    program.IfEqual(call, asks ? 7 : 4);
    if (asks) {
      program.LoadArgument(1);
      program.IfEqual(0, 1);
      program.Allow();
    }
    program.LoadArgument(0);
    program.IfNotEqual(own, 1);
    program.Refuse();
    program.Allow();
  }
  program.IfEqual(SYS_tkill, 1);
  program.Refuse();
}

Result<UniqueFd> Install(uint32_t refuse, bool watch_opening, unsigned long flags) {
  if (kArchitecture == 0) return Status(StatusCode::kUnsupported, "no filter of system calls is known for this processor");
  Program program(refuse);
  program.Load(offsetof(seccomp_data, arch));
  program.IfNotEqual(kArchitecture, 1);
  program.Return(SECCOMP_RET_KILL_PROCESS);
  program.LoadNumber();
#if defined(__x86_64__)
  program.IfAnyBit(kX32Bit, 1);
  program.Return(SECCOMP_RET_ERRNO | ENOSYS);
#endif
  for (const RefusedCall& call : kRefused) {
    program.IfEqual(call.number, 1);
    program.Refuse();
  }
  if (watch_opening) {
    for (const RefusedCall& call : kOpening) {
      program.IfEqual(call.number, 1);
      program.Refuse();
    }
  }
  AddConditions(program);
  program.Allow();
  return program.Install(flags);
}

}  // namespace

Status RefuseCalls() { return Install(SECCOMP_RET_ERRNO | EPERM, false, 0).status(); }

Result<UniqueFd> WatchCalls() { return Install(SECCOMP_RET_USER_NOTIF, true, SECCOMP_FILTER_FLAG_NEW_LISTENER); }

std::string CallName(int number) {
  for (const auto& list : {std::vector<RefusedCall>(std::begin(kRefused), std::end(kRefused)),
                           std::vector<RefusedCall>(std::begin(kOpening), std::end(kOpening)),
                           std::vector<RefusedCall>(std::begin(kConditional), std::end(kConditional))}) {
    for (const RefusedCall& call : list) {
      if (call.number == static_cast<uint32_t>(number)) return call.name;
    }
  }
  return "system call " + std::to_string(number);
}

}  // namespace tessera
