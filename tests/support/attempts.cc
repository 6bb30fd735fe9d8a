#include "tests/support/attempts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <sstream>

#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

// Of linux/ioprio.h and linux/sched/types.h, which older C libraries do not get along with.
constexpr int kIoOfProcess = 1;
constexpr int kIoOfGroup = 2;
constexpr int kIoOfUser = 3;
constexpr int kIoIdle = 3 << 13;
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

}  // namespace

const std::vector<Attempt>& Attempts() {
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
  };
  return kAttempts;
}

std::string OutcomeOf(const std::string& words) {
  std::istringstream stream(words);
  std::string name;
  long argument = 0;
  stream >> name >> argument;
  for (const Attempt& attempt : Attempts()) {
    if (attempt.name != name) continue;
    errno = 0;
    return attempt.act(argument) ? "succeeded" : std::string("refused: ") + std::strerror(errno);
  }
  return "no attempt of this name";
}

}  // namespace tessera
