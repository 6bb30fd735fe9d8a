// What a worker whose code a client has taken over can still do: every attempt runs in a process of its own that has
// entered the sandbox, as root's worker (with another user) and as an ordinary user's.
#include "server/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "protocol/base/unique_fd.h"
#include "server/daemon/gate_memory.h"
#include "server/sandbox/file_rules.h"
#include "tests/support/attempts.h"

namespace tessera {
namespace {

constexpr uid_t kOrdinaryUser = 65534;
constexpr int kRefused = 0;
constexpr int kSucceeded = 1;
constexpr int kNoSandbox = 2;

bool IsRoot() { return geteuid() == 0; }

const WorkerUser kNobody = {"nobody", kOrdinaryUser, kOrdinaryUser};
// As workers of the same server have them when each has a user of its own.
constexpr uid_t kOwnUser = 271001;
WorkerUser Own(uid_t uid) { return {std::to_string(uid), uid, static_cast<gid_t>(uid), true}; }

// Why the tests' machine cannot do all of it; those that need it say so.
std::string WhatIsMissing(bool private_root) {
  SandboxOptions options;
  options.user = kNobody;
  options.private_root = private_root;
  const SandboxReport report = InspectSandbox(options);
  return report.gaps.empty() ? "" : report.gaps.front();
}

// Kept alive by the test: a process to attack.
class Victim {
 public:
  explicit Victim(const std::function<void()>& prepare) {
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prepare();
      close(ready[1]);
      for (;;) pause();
    }
    close(ready[1]);
    char none;
    EXPECT_EQ(read(ready[0], &none, 1), 0);  // its end of the pipe is closed: it is prepared
    close(ready[0]);
  }
  ~Victim() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// Of a server that root started, with its workers' user or one of their own; of an ordinary user's. Without a private root:
// what Landlock does alone.
enum class Who { kOfRoot, kOfRootWithOwnUser, kOfOrdinaryUser, kWithoutRootOfItsOwn };

// SandboxOptions::shared_memory of those that enter it.
std::string shared_memory;

void Enter(Who who, uid_t own_user = kOwnUser) {
  SandboxOptions options;
  options.mode = SandboxMode::kRequire;
  options.shared_memory = shared_memory;
  options.private_root = who != Who::kWithoutRootOfItsOwn;
  if (who == Who::kOfRoot) {
    options.user = kNobody;
  } else if (who == Who::kOfRootWithOwnUser) {
    options.user = Own(own_user);
  } else if (IsRoot() && (setresgid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0 ||
                          setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0)) {
    _exit(kNoSandbox);
  }
  const Status status = EnterSandbox(options);
  if (status.ok()) return;
  fprintf(stderr, "%s\n", status.message().c_str());
  _exit(kNoSandbox);
}

// How a process ends that enters the sandbox and then does `act`: the exit code is what it returns.
int RunInSandbox(Who who, const std::function<int()>& act) {
  const pid_t pid = fork();
  if (pid == 0) {
    Enter(who);
    _exit(act());
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

int Verdict(bool succeeded) { return succeeded ? kSucceeded : kRefused; }

bool CanOpen(const std::string& path, int flags) { return UniqueFd(open(path.c_str(), flags | O_CLOEXEC, 0600)).valid(); }

class SandboxTest : public testing::TestWithParam<Who> {
 protected:
  void SetUp() override {
    const bool of_root = GetParam() == Who::kOfRoot || GetParam() == Who::kOfRootWithOwnUser;
    if (of_root && !IsRoot()) GTEST_SKIP() << "needs root";
    shared_memory.clear();
    const std::string missing = WhatIsMissing(GetParam() != Who::kWithoutRootOfItsOwn);
    if (!missing.empty()) GTEST_SKIP() << "this machine cannot do all of it: " << missing;
    // A file that its user and everybody else could read, in a place like a home directory.
    std::string pattern = "/var/tmp/sandboxXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
    std::ofstream(directory_ + "/file") << "secret";
    ASSERT_EQ(chmod((directory_ + "/file").c_str(), 0666), 0);
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  int Try(const std::function<bool()>& act) {
    return RunInSandbox(GetParam(), [&] { return Verdict(act()); });
  }
  std::string directory_;
};

TEST_P(SandboxTest, FilesAreClosed) {
  EXPECT_EQ(Try([] { return CanOpen("/etc/shadow", O_RDONLY); }), kRefused);
  EXPECT_EQ(Try([] { return CanOpen("/etc/passwd", O_RDONLY); }), kRefused);
  EXPECT_EQ(Try([this] { return CanOpen(directory_ + "/file", O_RDONLY); }), kRefused);
  EXPECT_EQ(Try([this] { return CanOpen(directory_ + "/file", O_WRONLY); }), kRefused);
  EXPECT_EQ(Try([this] { return CanOpen(directory_ + "/new", O_WRONLY | O_CREAT); }), kRefused);
  EXPECT_EQ(Try([this] { return truncate((directory_ + "/file").c_str(), 0) == 0; }), kRefused);
  EXPECT_EQ(Try([this] { return unlink((directory_ + "/file").c_str()) == 0; }), kRefused);
  EXPECT_EQ(Try([this] { return chmod((directory_ + "/file").c_str(), 0777) == 0; }), kRefused);
  EXPECT_EQ(Try([this] { return symlink("/etc/shadow", (directory_ + "/link").c_str()) == 0; }), kRefused);
  EXPECT_EQ(Try([] { return CanOpen("/", O_RDONLY | O_DIRECTORY); }), kRefused);
  EXPECT_EQ(Try([] { return CanOpen("/tmp/sandbox-test", O_WRONLY | O_CREAT); }), kRefused);
}

TEST_P(SandboxTest, WhatADriverNeedsIsOpen) {
  EXPECT_EQ(Try([] { return CanOpen("/dev/null", O_RDWR); }), kSucceeded);
  EXPECT_EQ(Try([] { return CanOpen("/proc/self/maps", O_RDONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return CanOpen("/proc/cpuinfo", O_RDONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return CanOpen("/sys/devices/system/cpu/online", O_RDONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return CanOpen("/etc/ld.so.cache", O_RDONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return UniqueFd(memfd_create("test", MFD_CLOEXEC)).valid(); }), kSucceeded);
  EXPECT_EQ(Try([] {
              bool ran = false;
              std::thread([&] { ran = true; }).join();
              return ran;
            }),
            kSucceeded);
}

// Its vGPU's share is the broker's to decide (server/gate). As a worker does: it maps the page to read before it is in the
// sandbox, and keeps no descriptor of it.
TEST_P(SandboxTest, AGatePageCanBeReadAlone) {
  const auto attempt = [](const std::function<bool(void* page)>& act) {
    const pid_t pid = fork();
    if (pid == 0) {
      void* page = MAP_FAILED;
      {
        const Result<GateMemory> memory = GateMemory::Make({});
        if (!memory.ok()) _exit(kNoSandbox);
        // The file of an ordinary user's server is its workers' own.
        if (IsRoot() && GetParam() != Who::kOfRoot && GetParam() != Who::kOfRootWithOwnUser &&
            fchown(memory.value().gate_fd(), kOrdinaryUser, kOrdinaryUser) != 0) {
          _exit(kNoSandbox);
        }
        if (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.value().worker_gate_fd(), 0) != MAP_FAILED)
          _exit(kSucceeded);
        page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memory.value().worker_gate_fd(), 0);
      }
      if (page == MAP_FAILED) _exit(kNoSandbox);
      Enter(GetParam());
      _exit(Verdict(act(page)));
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  };
  EXPECT_EQ(attempt([](void* page) { return *static_cast<volatile char*>(page) == 0; }), kSucceeded);
  EXPECT_EQ(attempt([](void* page) { return mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0; }), kRefused);
  EXPECT_EQ(attempt([](void* page) {
              return mremap(page, 4096, 8192, MREMAP_MAYMOVE) != MAP_FAILED && mprotect(page, 4096, PROT_WRITE) == 0;
            }),
            kRefused);
  EXPECT_EQ(attempt([](void* page) {
              const UniqueFd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
              return pwrite(memory.get(), "free", 4, static_cast<off_t>(reinterpret_cast<uintptr_t>(page))) == 4;
            }),
            kRefused);
  EXPECT_EQ(attempt([](void* page) {
              char name[128];
              const auto address = reinterpret_cast<uintptr_t>(page);
              snprintf(name, sizeof(name), "/proc/self/map_files/%lx-%lx", address, address + 4096);
              return CanOpen(name, O_RDWR);
            }),
            kRefused);
}

TEST_P(SandboxTest, NoNetwork) {
  for (const int family : {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK}) {
    EXPECT_EQ(Try([&] { return UniqueFd(socket(family, SOCK_STREAM, 0)).valid(); }), kRefused) << family;
    EXPECT_EQ(Try([&] { return UniqueFd(socket(family, SOCK_DGRAM, 0)).valid(); }), kRefused) << family;
  }
  EXPECT_EQ(Try([] { return UniqueFd(socket(AF_UNIX, SOCK_DGRAM, 0)).valid(); }), kRefused);
  // Somebody listens who would be glad.
  sockaddr_un address{AF_UNIX, {}};
  const std::string name = directory_ + "/socket";
  name.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(chmod(name.c_str(), 0777), 0);
  EXPECT_EQ(Try([&] {
              const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
              return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
            }),
            kRefused);
}

// Another worker of the same user, and a process of that user which is in no sandbox.
TEST_P(SandboxTest, OtherProcessesAreOutOfReach) {
  static char secret[16] = "secret";
  const Victim worker([] { Enter(GetParam(), kOwnUser + 1); });
  const Victim user([] {
    if (IsRoot() && setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0) _exit(1);
    prctl(PR_SET_DUMPABLE, 1);
  });
  for (const pid_t pid : {worker.pid(), user.pid()}) {
    const std::string directory = "/proc/" + std::to_string(pid);
    EXPECT_EQ(Try([&] { return CanOpen(directory + "/mem", O_RDONLY); }), kRefused);
    EXPECT_EQ(Try([&] { return CanOpen(directory + "/mem", O_RDWR); }), kRefused);
    for (const char* name : {"/environ", "/cmdline", "/status", "/maps", "/oom_score_adj", "/task"})
      EXPECT_EQ(Try([&] { return CanOpen(directory + name, O_RDONLY); }), kRefused) << name;
    EXPECT_EQ(Try([&] { return CanOpen(directory + "/fd/0", O_RDONLY); }), kRefused);
    EXPECT_EQ(Try([&] { return ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) == 0; }), kRefused);
    EXPECT_EQ(Try([&] {
                char copy[sizeof(secret)];
                const iovec local{copy, sizeof(copy)};
                const iovec remote{secret, sizeof(secret)};
                return process_vm_readv(pid, &local, 1, &remote, 1, 0) >= 0;
              }),
              kRefused);
    EXPECT_EQ(Try([&] {
                const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
                return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), 0, 0))).valid() ||
                       syscall(SYS_pidfd_send_signal, process.get(), SIGUSR1, nullptr, 0) == 0;
              }),
              kRefused);
    EXPECT_EQ(Try([&] { return kill(pid, SIGUSR1) == 0; }), kRefused);
    EXPECT_EQ(Try([&] { return syscall(SYS_tgkill, pid, pid, SIGUSR1) == 0; }), kRefused);
    EXPECT_EQ(kill(pid, 0), 0);  // it lives
  }
}

// Calls that reach whatever process of the same user is named by number: a limit of processor time kills it.
constexpr const char* kByNumber[] = {
    "prlimit64",  "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr",    "setpriority",
    "ioprio_set", "migrate_pages",     "move_pages",         "kill",           "pidfd_send_signal"};

TEST_P(SandboxTest, OtherProcessesKeepTheirLimitsAndPriorities) {
  const Victim worker([] { Enter(GetParam(), kOwnUser + 1); });
  const Victim user([] {
    if (IsRoot() && setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0) _exit(1);
  });
  for (const std::string call : kByNumber) {
    for (const pid_t pid : {worker.pid(), user.pid()}) {
      const std::string words = call + " " + std::to_string(pid);
      EXPECT_EQ(Try([&] { return OutcomeOf(words) != "refused: Operation not permitted"; }), kRefused) << words;
    }
  }
}

// Whatever a list of attempts has: a call that is not refused here, or not so, is found.
TEST_P(SandboxTest, EveryAttemptIsRefused) {
  for (const Attempt& attempt : Attempts())
    EXPECT_EQ(Try([&] { return OutcomeOf(attempt.name + std::string(" 1")) != "refused: Operation not permitted"; }), kRefused)
        << attempt.name;
}

// As an older kernel has it: C libraries go on with what they did before there was such a call.
TEST_P(SandboxTest, CallsOfLaterKernelsAreNotThere) {
  for (const long number : {500L, 511L, 0x40000000L + SYS_getpid}) {
    EXPECT_EQ(Try([&] { return syscall(number, 0, 0, 0) == -1 && errno == ENOSYS; }), kSucceeded) << number;
  }
}

TEST_P(SandboxTest, AProcessHasItsOwnLimitsAndPriorities) {
  for (const std::string call : kByNumber) {
    if (call == "pidfd_send_signal") continue;  // whose process a filter cannot see
    EXPECT_EQ(Try([&] { return OutcomeOf(call + " " + std::to_string(getpid())) == "succeeded"; }), kSucceeded) << call;
    if (call == "kill") continue;  // 0 is its group
    EXPECT_EQ(Try([&] { return OutcomeOf(call + " 0") == "succeeded"; }), kSucceeded) << call;
  }
}

TEST_P(SandboxTest, NoProgramsAndNoProcesses) {
  EXPECT_EQ(Try([] {
              char name[] = "/bin/false";  // started, it would end with kSucceeded
              char* const arguments[] = {name, nullptr};
              execv(name, arguments);
              return errno != EPERM;
            }),
            kRefused);
  EXPECT_EQ(Try([] {
              const pid_t pid = fork();
              if (pid == 0) _exit(0);
              return pid > 0;
            }),
            kRefused);
}

TEST_P(SandboxTest, NoWayBack) {
  EXPECT_EQ(Try([] { return setuid(0) == 0; }), kRefused);
  EXPECT_EQ(Try([] { return mount("none", "/tmp", "tmpfs", 0, nullptr) == 0; }), kRefused);
  EXPECT_EQ(Try([] { return unshare(CLONE_NEWUSER) == 0; }), kRefused);
  EXPECT_EQ(Try([] { return chroot("/") == 0; }), kRefused);
  EXPECT_EQ(Try([] {
              char parameters[120] = {};
              return syscall(SYS_io_uring_setup, 1, parameters) >= 0;
            }),
            kRefused);
  EXPECT_EQ(Try([] { return geteuid() == 0; }), kRefused);
  EXPECT_EQ(Try([] { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0; }), kRefused);
  EXPECT_EQ(Try([] { return prctl(PR_GET_DUMPABLE) != 0; }), kRefused);
  EXPECT_EQ(Try([] {
              rlimit limit{};
              getrlimit(RLIMIT_CORE, &limit);
              return limit.rlim_max != 0;
            }),
            kRefused);
}

// Threads that were started afterwards are in it as well.
TEST_P(SandboxTest, ThreadsAreInIt) {
  EXPECT_EQ(Try([] {
              bool opened = true;
              std::thread([&] {
                opened = CanOpen("/etc/passwd", O_RDONLY) || UniqueFd(socket(AF_INET, SOCK_STREAM, 0)).valid();
              }).join();
              return opened;
            }),
            kRefused);
}

// What Landlock leaves: names, sizes and times of all files. They are not there.
TEST_P(SandboxTest, TheMachinesFilesAreNotThere) {
  if (GetParam() == Who::kWithoutRootOfItsOwn) GTEST_SKIP() << "that is what it lacks";
  for (const std::string& path : {std::string("/home"), std::string("/root"), std::string("/var"), std::string("/tmp"),
                                  std::string("/etc/passwd"), directory_ + "/file"}) {
    EXPECT_EQ(Try([&] {
                struct stat status {};
                return lstat(path.c_str(), &status) == 0 || errno != ENOENT;
              }),
              kRefused)
        << path;
  }
  // Nor are sockets that others listen on, whatever a filter says of calls.
  EXPECT_EQ(Try([] { return access("/run/dbus", F_OK) == 0 || access("/run/user", F_OK) == 0; }), kRefused);
  EXPECT_EQ(Try([] { return mkdir("/usr/new", 0700) == 0 || errno != EROFS; }), kRefused);
  EXPECT_EQ(Try([] { return mkdir("/new", 0700) == 0 || errno != EROFS; }), kRefused);
}

// Where programs of the machine share memory, and the driver keeps its events.
TEST_P(SandboxTest, TheMachinesSharedMemoryIsNotThere) {
  if (GetParam() == Who::kWithoutRootOfItsOwn) GTEST_SKIP() << "that is what it lacks";
  const std::string of_machine = "/dev/shm/sandbox-test-" + std::to_string(getpid());
  std::ofstream(of_machine) << "secret";
  ASSERT_EQ(chmod(of_machine.c_str(), 0666), 0);
  shared_memory = directory_;
  EXPECT_EQ(Try([&] { return CanOpen(of_machine, O_RDONLY); }), kRefused);
  EXPECT_EQ(Try([] { return CanOpen("/dev/shm/new", O_RDWR | O_CREAT | O_EXCL); }), kSucceeded);
  // What one worker has left there others have too, unless each has a user of its own.
  const bool shared = GetParam() != Who::kOfRootWithOwnUser;
  EXPECT_EQ(Try([] { return CanOpen("/dev/shm/new", O_RDONLY); }), shared ? kSucceeded : kRefused);
  EXPECT_EQ(std::filesystem::exists(directory_ + "/new"), shared);
  shared_memory.clear();
  unlink(of_machine.c_str());
}

TEST_P(SandboxTest, ACacheOfCompiledCodeIsForUsersThatAreShared) {
  ASSERT_EQ(setenv("CUDA_CACHE_PATH", directory_.c_str(), 1), 0);
  const int verdict = Try([this] { return CanOpen(directory_ + "/file", O_RDWR); });
  unsetenv("CUDA_CACHE_PATH");
  EXPECT_EQ(verdict, GetParam() == Who::kOfRootWithOwnUser ? kRefused : kSucceeded);
}

INSTANTIATE_TEST_SUITE_P(Workers, SandboxTest,
                         testing::Values(Who::kOfRoot, Who::kOfRootWithOwnUser, Who::kOfOrdinaryUser, Who::kWithoutRootOfItsOwn),
                         [](const auto& info) -> std::string {
                           switch (info.param) {
                             case Who::kOfRoot: return "OfRoot";
                             case Who::kOfRootWithOwnUser: return "OfRootWithOwnUser";
                             case Who::kOfOrdinaryUser: return "OfOrdinaryUser";
                             case Who::kWithoutRootOfItsOwn: return "WithoutRootOfItsOwn";
                           }
                           return "";
                         });

TEST(SandboxModes, OffChangesNothing) {
  const pid_t pid = fork();
  if (pid == 0) {
    SandboxOptions options;
    options.mode = SandboxMode::kOff;
    if (!EnterSandbox(options).ok()) _exit(kNoSandbox);
    _exit(Verdict(CanOpen("/etc/passwd", O_RDONLY)));
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), kSucceeded);
}

// Else it would say nothing that an attempt was refused in a sandbox.
TEST(SandboxModes, WithoutASandboxAttemptsSucceed) {
  // A user and a group of processes without others, whose priorities may differ.
  const auto become_user = [] {
    constexpr uid_t kNobodyElse = kOwnUser + 9;
    if (setpgid(0, 0) != 0 || (IsRoot() && setresuid(kNobodyElse, kNobodyElse, kNobodyElse) != 0)) _exit(1);
    prctl(PR_SET_DUMPABLE, 1);
  };
  const Victim user(become_user);
  const pid_t pid = fork();
  if (pid == 0) {
    become_user();
    for (const Attempt& attempt : Attempts()) {
      const std::string outcome = OutcomeOf(attempt.name + (" " + std::to_string(user.pid())));
      const bool said = attempt.otherwise == Attempt::Otherwise::kSucceeds ? outcome == "succeeded"
                                                                           : outcome != "refused: Operation not permitted";
      if (said || attempt.otherwise == Attempt::Otherwise::kDepends) continue;
      fprintf(stderr, "%s: %s\n", attempt.name, outcome.c_str());
      _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SandboxModes, LogTellsAndLetsItHappen) {
  int out[2];
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out[1], STDERR_FILENO);
    SandboxOptions options;
    options.mode = SandboxMode::kLog;
    if (!EnterSandbox(options).ok()) _exit(kNoSandbox);
    const bool opened = CanOpen("/etc/passwd", O_RDONLY);
    const bool allowed = CanOpen("/dev/null", O_RDONLY);
    const bool made = UniqueFd(socket(AF_INET, SOCK_STREAM, 0)).valid();
    _exit(Verdict(opened && allowed && made));
  }
  close(out[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(out[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(size));
  close(out[0]);
  int status = -1;
  waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == kNoSandbox) GTEST_SKIP() << "system calls cannot be watched here";
  EXPECT_EQ(WEXITSTATUS(status), kSucceeded);
  EXPECT_NE(text.find("the sandbox would refuse opening /etc/passwd"), std::string::npos) << text;
  EXPECT_NE(text.find("the sandbox would refuse socket"), std::string::npos) << text;
  EXPECT_EQ(text.find("/dev/null"), std::string::npos) << text;
}

TEST(SandboxModes, RequireFailsWhereSomethingIsMissing) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  SandboxOptions options;
  options.mode = SandboxMode::kRequire;  // and nobody to become
  const pid_t pid = fork();
  if (pid == 0) _exit(EnterSandbox(options).ok() ? 1 : 0);
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SandboxModes, Words) {
  SandboxMode mode = SandboxMode::kOff;
  EXPECT_TRUE(ParseSandboxMode("require", &mode));
  EXPECT_EQ(mode, SandboxMode::kRequire);
  EXPECT_FALSE(ParseSandboxMode("yes", &mode));
  EXPECT_FALSE(ParseSandboxMode("", &mode));
}

TEST(FileRules, AskedByPath) {
  const std::vector<FileRule> rules = {{"/usr", FileRule::Access::kRead}, {"/dev/null", FileRule::Access::kReadWrite}};
  EXPECT_TRUE(RulesAllow(rules, "/usr/lib/something.so", false));
  EXPECT_FALSE(RulesAllow(rules, "/usr/lib/something.so", true));
  EXPECT_FALSE(RulesAllow(rules, "/usrother", false));
  EXPECT_FALSE(RulesAllow(rules, "/usr/../etc/passwd", false));
  EXPECT_TRUE(RulesAllow(rules, "/dev/null", true));
}

// As the home of another user is.
TEST(FileRules, ARuleThatCannotBeFollowedAllowsNothing) {
  std::string directory = "/tmp/sandboxXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string circle = directory + "/circle";
  ASSERT_EQ(symlink(circle.c_str(), circle.c_str()), 0);
  EXPECT_FALSE(RulesAllow({{circle, FileRule::Access::kReadWrite}}, "/etc/passwd", false));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tessera
