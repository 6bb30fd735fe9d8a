#include "server/sandbox/call_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <set>

#include "server/sandbox/call_lists.h"

namespace tessera {
namespace {

// Beyond all numbers that kernels have given to calls.
constexpr int kNumbersEnd = 512;

constexpr uint32_t kIoOfProcess = 1;  // IOPRIO_WHO_PROCESS

// What a call does that no rule allows is `otherwise`.
class Filter {
 public:
  explicit Filter(uint32_t otherwise) : context_(seccomp_init(otherwise)) {
    // Calls of other interfaces of the processor, which no rule names.
    Set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    // Without it older kernels make all of the process slower against an attack on itself.
    Set(SCMP_FLTATR_CTL_SSB, 1);
  }
  ~Filter() { seccomp_release(context_); }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  // Where several rules of a call hold, one of them is enough.
  void Add(uint32_t action, int call, std::initializer_list<scmp_arg_cmp> conditions = {}) {
    named_.insert(call);
    const int result = context_ == nullptr ? -ENOMEM
                                           : seccomp_rule_add_array(context_, action, call,
                                                                    static_cast<unsigned>(conditions.size()), conditions.begin());
    if (result < 0 && error_ == 0) error_ = -result;
  }
  void Allow(int call, std::initializer_list<scmp_arg_cmp> conditions = {}) { Add(SCMP_ACT_ALLOW, call, conditions); }
  // As `otherwise` has it.
  void Leave(int call) { named_.insert(call); }
  // All calls that have not been named.
  void AddOthers(uint32_t action) {
    const std::set<int> named = named_;
    for (int call = 0; call < kNumbersEnd; ++call) {
      if (!named.contains(call)) Add(action, call);
    }
  }

  Status Install() {
    if (error_ == 0 && context_ != nullptr) error_ = -seccomp_load(context_);
    return error_ == 0 ? Status::Ok() : Status::FromErrno("cannot install a filter of system calls", error_);
  }
  // After Install() of a filter that asks: where it does.
  UniqueFd Questions() const { return UniqueFd(fcntl(seccomp_notify_fd(context_), F_DUPFD_CLOEXEC, 0)); }

 private:
  void Set(scmp_filter_attr attribute, uint32_t value) {
    const int result = context_ == nullptr ? -ENOMEM : seccomp_attr_set(context_, attribute, value);
    if (result < 0 && error_ == 0) error_ = -result;
  }

  scmp_filter_ctx context_;
  std::set<int> named_;
  int error_ = 0;
};

// Numbers of processes, families and flags have 32 bits, whatever is above them in the register.
scmp_arg_cmp Is(unsigned index, uint32_t value) { return SCMP_CMP64(index, SCMP_CMP_MASKED_EQ, UINT32_MAX, value); }
scmp_arg_cmp Has(unsigned index, uint32_t mask, uint32_t value) { return SCMP_CMP64(index, SCMP_CMP_MASKED_EQ, mask, value); }

// Calls about a process that is named by number: about this one. Those about other threads of it are refused too, whose
// numbers a filter cannot tell from those of other processes.
void AllowForOwnProcess(Filter& filter) {
  const auto own = static_cast<uint32_t>(getpid());
  // Signal 0 asks whether a process is there.
  filter.Allow(SYS_kill, {Is(1, 0)});
  for (const int call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) filter.Allow(call, {Is(0, own)});
  filter.Leave(SYS_tkill);
  for (const uint32_t process : {0U, own}) {
    for (const int call : {SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
                           SYS_migrate_pages, SYS_move_pages}) {
      filter.Allow(call, {Is(0, process)});
    }
    filter.Allow(SYS_setpriority, {Is(0, PRIO_PROCESS), Is(1, process)});
    filter.Allow(SYS_ioprio_set, {Is(0, kIoOfProcess), Is(1, process)});
  }
}

void AddConditions(Filter& filter) {
  // The driver shares descriptors of its own over stream sockets with abstract names. Datagrams could be sent to others
  // without connect().
  constexpr uint32_t kTypes = 0xf;
  for (const uint32_t type : {SOCK_STREAM, SOCK_SEQPACKET}) filter.Allow(SYS_socket, {Is(0, AF_UNIX), Has(1, kTypes, type)});
  // Threads, not processes.
  filter.Allow(SYS_clone, {Has(0, CLONE_THREAD, CLONE_THREAD)});
  // Its flags are behind a pointer. The C library then uses clone.
  filter.Add(SCMP_ACT_ERRNO(ENOSYS), SYS_clone3);
  AllowForOwnProcess(filter);
}

}  // namespace

Status RefuseCalls() {
  Filter filter(SCMP_ACT_ERRNO(EPERM));
  for (const KnownCall& call : RefusedCalls()) filter.Leave(call.number);
  AddConditions(filter);
  filter.AddOthers(SCMP_ACT_ALLOW);
  return filter.Install();
}

Result<UniqueFd> WatchCalls() {
  Filter filter(SCMP_ACT_NOTIFY);
  for (const KnownCall& call : RefusedCalls()) filter.Leave(call.number);
  for (const KnownCall& call : OpeningCalls()) filter.Leave(call.number);
  AddConditions(filter);
  filter.AddOthers(SCMP_ACT_ALLOW);
  RETURN_IF_ERROR(filter.Install());
  UniqueFd questions = filter.Questions();
  if (!questions.valid()) return Status::FromErrno("cannot watch system calls", errno);
  return questions;
}

std::string CallName(int number) {
  char* const name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  const std::string text = name != nullptr ? name : "system call " + std::to_string(number);
  free(name);
  return text;
}

}  // namespace tessera
