#include "tests/support/attempts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <sstream>

#include "protocol/base/unique_fd.h"
#include "tests/support/log_attempts.h"

namespace tessera {
namespace {

// Of linux/ioprio.h and linux/sched/types.h, which older C libraries do not get along with.
constexpr int kIoOfProcess = 1;
constexpr int kIoOfGroup = 2;
constexpr int kIoOfUser = 3;
constexpr int kIoIdle = 3 << 13;
// Calls that older headers do not name.
constexpr long kFchmodat2 = 452;
constexpr long kSetxattrat = 463;
constexpr long kOpenTreeAttr = 467;
constexpr long kFileSetattr = 469;
constexpr int kOfUserMode = 1;  // UFFD_USER_MODE_ONLY
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_BATCH;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t times[3] = {};
};

pid_t Pid(long argument) { return static_cast<pid_t>(argument); }

// To what it is already: that is allowed where a change is.
bool SetPriority(__priority_which which, long who) {
  errno = 0;
  const int now = getpriority(which, static_cast<id_t>(who));
  return errno == 0 && setpriority(which, static_cast<id_t>(who), now) == 0;
}

bool Pair(int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) return false;
  close(ends[0]);
  close(ends[1]);
  return true;
}

}  // namespace

const std::vector<Attempt>& Attempts() {
  using enum Attempt::Otherwise;
  static const std::vector<Attempt> kAttempts = {
      // A second of processor time more, and the process is killed.
      {"prlimit64",
       [](long pid) {
         const rlimit second{1, 1};
         return prlimit(Pid(pid), RLIMIT_CPU, &second, nullptr) == 0;
       }},
      {"sched_setaffinity",
       [](long pid) {
         cpu_set_t set;
         return sched_getaffinity(0, sizeof(set), &set) == 0 && sched_setaffinity(Pid(pid), sizeof(set), &set) == 0;
       }},
      {"sched_setscheduler",
       [](long pid) {
         const sched_param none{};
         return sched_setscheduler(Pid(pid), SCHED_BATCH, &none) == 0;
       }},
      {"sched_setparam",
       [](long pid) {
         const sched_param none{};
         return sched_setparam(Pid(pid), &none) == 0;
       }},
      {"sched_setattr",
       [](long pid) {
         SchedulingAttributes batch;
         batch.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(pid));
         return syscall(SYS_sched_setattr, Pid(pid), &batch, 0) == 0;
       }},
      {"setpriority", [](long pid) { return SetPriority(PRIO_PROCESS, pid); }},
      {"setpriority-of-group", [](long) { return SetPriority(PRIO_PGRP, 0); }},
      {"setpriority-of-user", [](long) { return SetPriority(PRIO_USER, 0); }},
      {"ioprio_set", [](long pid) { return syscall(SYS_ioprio_set, kIoOfProcess, Pid(pid), kIoIdle) == 0; }},
      {"ioprio_set-of-group", [](long) { return syscall(SYS_ioprio_set, kIoOfGroup, 0, 0) == 0; }},
      {"ioprio_set-of-user", [](long) { return syscall(SYS_ioprio_set, kIoOfUser, getuid(), 0) == 0; }},
      {"migrate_pages",
       [](long pid) {
         const unsigned long first = 1;
         return syscall(SYS_migrate_pages, Pid(pid), 8 * sizeof(first), &first, &first) >= 0;
       }},
      {"move_pages", [](long pid) { return syscall(SYS_move_pages, Pid(pid), 0UL, nullptr, nullptr, nullptr, 0) == 0; }},
      {"kill", [](long pid) { return kill(Pid(pid), SIGCONT) == 0; }},
      {"pidfd_send_signal",
       [](long pid) {
         const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, Pid(pid), 0)));
         return process.valid() && syscall(SYS_pidfd_send_signal, process.get(), SIGCONT, nullptr, 0) == 0;
       }},
      {"ptrace", [](long pid) { return ptrace(PTRACE_SEIZE, Pid(pid), nullptr, nullptr) == 0; }, kDepends},
      {"process_vm_readv",
       [](long pid) {
         static char text[8];
         const iovec place{text, sizeof(text)};
         return process_vm_readv(Pid(pid), &place, 1, &place, 1, 0) >= 0;
       },
       kDepends},
      {"pidfd_getfd",
       [](long pid) {
         const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, Pid(pid), 0)));
         return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), 0, 0))).valid();
       },
       kDepends},
      // What all processes of a user see, and what outlives them.
      {"shmget",
       [](long) {
         const int id = shmget(IPC_PRIVATE, 4096, 0600);
         return id >= 0 && shmctl(id, IPC_RMID, nullptr) == 0;
       }},
      {"semget",
       [](long) {
         const int id = semget(IPC_PRIVATE, 1, 0600);
         return id >= 0 && semctl(id, 0, IPC_RMID) == 0;
       }},
      {"msgget",
       [](long) {
         const int id = msgget(IPC_PRIVATE, 0600);
         return id >= 0 && msgctl(id, IPC_RMID, nullptr) == 0;
       }},
      {"mq_open",
       [](long) {
         const std::string name = "tessera-attempt-" + std::to_string(getpid());
         const UniqueFd queue(static_cast<int>(syscall(SYS_mq_open, name.c_str(), O_RDWR | O_CREAT, 0600, nullptr)));
         return queue.valid() && syscall(SYS_mq_unlink, name.c_str()) == 0;
       }},
      // Sockets that send to others without connect().
      {"socket-datagram", [](long) { return UniqueFd(socket(AF_UNIX, SOCK_DGRAM, 0)).valid(); }},
      {"socket-raw", [](long) { return UniqueFd(socket(AF_UNIX, SOCK_RAW, 0)).valid(); }},
      {"socket-internet", [](long) { return UniqueFd(socket(AF_INET, SOCK_STREAM, 0)).valid(); }},
      {"socketpair-datagram", [](long) { return Pair(SOCK_DGRAM); }},
      {"socketpair-raw", [](long) { return Pair(SOCK_RAW); }},
      // To outlive tesserad, and to have the kernel send signals to others.
      {"prctl-outlive", [](long) { return prctl(PR_SET_PDEATHSIG, 0) == 0; }},
      {"prctl-traceable", [](long) { return prctl(PR_SET_DUMPABLE, 1) == 0; }},
      {"fcntl-owner", [](long pid) { return fcntl(STDERR_FILENO, F_SETOWN, Pid(pid)) == 0; }},
      {"fcntl-signal", [](long) { return fcntl(STDERR_FILENO, F_SETSIG, SIGKILL) == 0; }},
      {"ioctl-owner",
       [](long) {
         const int pid = getpid();
         return ioctl(STDERR_FILENO, FIOSETOWN, &pid) == 0;
       },
       kFails},
      // Text for the terminal that tesserad was started from.
      {"ioctl-type", [](long) { return ioctl(STDERR_FILENO, TIOCSTI, "x") == 0; }, kFails},
      // Names and rights of files by newer calls.
      {"fchmodat2", [](long) { return syscall(kFchmodat2, -1, "none", 0600, 0) == 0; }, kFails},
      {"setxattrat", [](long) { return syscall(kSetxattrat, -1, "none", 0, "user.x", nullptr, 0) == 0; }, kFails},
      {"file_setattr", [](long) { return syscall(kFileSetattr, -1, "none", nullptr, 0, 0) == 0; }, kFails},
      {"open_tree_attr",
       [](long) { return UniqueFd(static_cast<int>(syscall(kOpenTreeAttr, -1, "none", 0, nullptr, 0))).valid(); }, kFails},
      {"quotactl_fd", [](long) { return syscall(SYS_quotactl_fd, -1, 0, 0, nullptr) == 0; }, kFails},
      // The kernel's larger doors.
      {"userfaultfd", [](long) { return UniqueFd(static_cast<int>(syscall(SYS_userfaultfd, kOfUserMode))).valid(); }, kDepends},
      {"io_uring_setup",
       [](long) {
         char parameters[120] = {};
         return UniqueFd(static_cast<int>(syscall(SYS_io_uring_setup, 1, parameters))).valid();
       },
       kDepends},
      {"io_setup",
       [](long) {
         unsigned long context = 0;
         return syscall(SYS_io_setup, 1, &context) == 0;
       }},
      {"keyctl", [](long) { return syscall(SYS_keyctl, 0, -3, 1) >= 0; }, kDepends},
      {"perf_event_open", [](long) { return syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0) >= 0; }, kFails},
      {"bpf", [](long) { return syscall(SYS_bpf, 999, nullptr, 0) == 0; }, kDepends},
      {"seccomp", [](long) { return syscall(SYS_seccomp, 999, 0, nullptr) == 0; }, kFails},
      {"mount", [](long) { return mount(nullptr, nullptr, nullptr, 0, nullptr) == 0; }, kFails},
      {"execve", [](long) { return syscall(SYS_execve, "", nullptr, nullptr) == 0; }, kFails},
  };
  return kAttempts;
}

std::string OutcomeOf(const std::string& words) {
  std::istringstream stream(words);
  std::string name;
  long argument = 0;
  stream >> name >> argument;
  for (const std::vector<Attempt>* list : {&Attempts(), &LogAttempts()}) {
    for (const Attempt& attempt : *list) {
      if (attempt.name != name) continue;
      errno = 0;
      return attempt.act(argument) ? "succeeded" : std::string("refused: ") + std::strerror(errno);
    }
  }
  return "no attempt of this name";
}

}  // namespace tessera
