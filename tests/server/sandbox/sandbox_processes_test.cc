// Which processes, networks and system calls a worker whose code a client has taken over can still reach.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>

#include "protocol/base/unique_fd.h"
#include "tests/server/sandbox/in_sandbox.h"
#include "tests/support/attempts.h"

namespace tessera {
namespace {

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

TEST_P(SandboxTest, TheMachinesNetworkIsNotTold) {
  if (GetParam() == Who::kWithoutRootOfItsOwn) GTEST_SKIP() << "that comes with a root of its own";
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{AF_UNIX, {}};
  constexpr std::string_view kName = "tessera-sandbox-test";
  kName.copy(address.sun_path + 1, kName.size());  // an abstract name
  const socklen_t length = offsetof(sockaddr_un, sun_path) + 1 + kName.size();
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  const auto tells = [kName](const char* path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {}).find(kName) != std::string::npos;
  };
  ASSERT_TRUE(tells("/proc/self/net/unix"));
  for (const char* path : {"/proc/self/net/unix", "/proc/thread-self/net/unix", "/proc/net/unix"})
    EXPECT_EQ(Try([&] { return tells(path); }), kRefused) << path;
}

// Another worker of the same user, and a process of that user which is in no sandbox.
TEST_P(SandboxTest, OtherProcessesAreOutOfReach) {
  static char secret[16] = "secret";
  const Victim worker([this] { Enter(kOwnUser + 1); });
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
  const Victim worker([this] { Enter(kOwnUser + 1); });
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

}  // namespace
}  // namespace tessera
