// A program of the build: writes the filters of workers and services as programs for the kernel
// (generated/server/call_programs.h). Made by libseccomp from the rules below and the lists of call_lists.h. usage:
// make_call_programs > FILE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>

#include "server/sandbox/call_lists.h"

namespace tessera {
namespace {

// Beyond all numbers that kernels have given to calls.
constexpr int kNumbersEnd = 512;

constexpr uint32_t kIoOfProcess = 1;       // IOPRIO_WHO_PROCESS
constexpr int kNameMapping = 0x53564d41;   // PR_SET_VMA
constexpr int kGetAuxiliary = 0x41555856;  // PR_GET_AUXV

// What a call does that no rule allows is `otherwise`.
class Filter {
 public:
  explicit Filter(uint32_t otherwise) : context_(seccomp_init(otherwise)) {
    // Readily found among several hundred calls.
    Set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
    // Calls of other interfaces of the processor, which no rule names.
    Set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
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
  bool Names(int call) const { return named_.contains(call); }
  // All calls that have not been named.
  void AddOthers(uint32_t action) {
    const std::set<int> named = named_;
    for (int call = 0; call < kNumbersEnd; ++call) {
      if (!named.contains(call)) Add(action, call);
    }
  }

  // As a constant of the name; false: libseccomp had none.
  bool Print(const char* name) {
    const int file = memfd_create("program", MFD_CLOEXEC);
    if (error_ == 0) error_ = file < 0 ? errno : -seccomp_export_bpf(context_, file);
    if (error_ != 0) {
      fprintf(stderr, "make_call_programs: %s: %s\n", name, strerror(error_));
      return false;
    }
    printf("inline constexpr sock_filter %s[] = {\n", name);
    sock_filter step{};
    for (off_t at = 0; pread(file, &step, sizeof(step), at) == static_cast<ssize_t>(sizeof(step));
         at += static_cast<off_t>(sizeof(step)))
      printf("    {%u, %u, %u, %u},\n", step.code, step.jt, step.jf, step.k);
    printf("};\n");
    return true;
  }

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
  // Signal 0 asks whether a process is there.
  filter.Allow(SYS_kill, {Is(1, 0)});
  for (const int call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo})
    filter.Allow(call, {Is(0, kOwnProcess)});
  filter.Leave(SYS_tkill);
  for (const uint32_t process : {0U, kOwnProcess}) {
    for (const int call : {SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
                           SYS_migrate_pages, SYS_move_pages}) {
      filter.Allow(call, {Is(0, process)});
    }
    filter.Allow(SYS_setpriority, {Is(0, PRIO_PROCESS), Is(1, process)});
    filter.Allow(SYS_ioprio_set, {Is(0, kIoOfProcess), Is(1, process)});
  }
}

// Whose filter it is.
enum class Kind { kWorker, kService, kBroker, kCarrier, kNetwork };

// Connections over networks, and questions to the kernel about routes and cards. Datagrams are for name servers, and what
// questions about interfaces are asked through. No other family: what programs of this host listen at is not for it.
void AllowNetworks(Filter& filter) {
  constexpr uint32_t kTypes = 0xf;
  for (const uint32_t family : {AF_INET, AF_INET6}) {
    for (const uint32_t type : {SOCK_STREAM, SOCK_DGRAM}) filter.Allow(SYS_socket, {Is(0, family), Has(1, kTypes, type)});
  }
  for (const uint32_t about : {NETLINK_ROUTE, NETLINK_RDMA}) filter.Allow(SYS_socket, {Is(0, AF_NETLINK), Is(2, about)});
  filter.Allow(SYS_connect);
}

// What reaches others: as far as it is about this process, or needs what others gave it.
void AllowOwn(Filter& filter, Kind kind) {
  // The driver shares descriptors of its own over stream sockets with abstract names. Datagrams, which is what SOCK_RAW means
  // here, could be sent to others without connect().
  constexpr uint32_t kTypes = 0xf;
  for (const int call : {SYS_socket, SYS_socketpair}) {
    filter.Leave(call);
    const bool has_pairs = kind == Kind::kBroker || kind == Kind::kCarrier || kind == Kind::kNetwork;
    if (kind == Kind::kService || (has_pairs && call == SYS_socket)) continue;
    for (const uint32_t type : {SOCK_STREAM, SOCK_SEQPACKET}) filter.Allow(call, {Is(0, AF_UNIX), Has(1, kTypes, type)});
  }
  if (kind == Kind::kNetwork) AllowNetworks(filter);
  // Threads, not processes.
  filter.Allow(SYS_clone, {Has(0, CLONE_THREAD, CLONE_THREAD)});
  // Its flags are behind a pointer. The C library then uses clone.
  filter.Add(SCMP_ACT_ERRNO(ENOSYS), SYS_clone3);
  AllowForOwnProcess(filter);
}

// Calls that do everything: what is known to be asked of them.
void AllowKnownRequests(Filter& filter, Kind kind) {
  // Not who gets signals of a descriptor, nor which, nor leases and notifications.
  for (const uint32_t command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK,
                                 F_OFD_SETLK, F_OFD_SETLKW, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS}) {
    filter.Allow(SYS_fcntl, {Is(1, command)});
  }
  filter.Allow(SYS_fcntl, {Is(1, F_SETFL), Has(2, O_ASYNC, 0)});
  // It ends with its parent, and nobody may trace it.
  filter.Allow(SYS_prctl, {Is(0, PR_SET_PDEATHSIG), Is(1, SIGKILL)});
  filter.Allow(SYS_prctl, {Is(0, PR_SET_DUMPABLE), Is(1, 0)});
  for (const uint32_t option : {PR_SET_NAME, PR_GET_NAME, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_GET_PDEATHSIG, PR_GET_DUMPABLE,
                                PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_SET_THP_DISABLE,
                                PR_GET_THP_DISABLE, PR_GET_TSC, PR_GET_SPECULATION_CTRL, kNameMapping, kGetAuxiliary}) {
    filter.Allow(SYS_prctl, {Is(0, option)});
  }
  for (const uint32_t option : {SO_REUSEADDR, SO_SNDBUF, SO_RCVBUF, SO_PASSCRED, SO_RCVTIMEO, SO_SNDTIMEO})
    filter.Allow(SYS_setsockopt, {Is(1, SOL_SOCKET), Is(2, option)});
  if (kind == Kind::kCarrier) {
    filter.Allow(SYS_setsockopt, {Is(1, SOL_SOCKET), Is(2, SO_KEEPALIVE)});
    for (const uint32_t option : {TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT})
      filter.Allow(SYS_setsockopt, {Is(1, IPPROTO_TCP), Is(2, option)});
  }
  // Of the driver: 'F' of nvidia and nvidiactl, plain numbers of nvidia-uvm. What descriptors of any kind are asked. Not what
  // writes into terminals (TIOCSTI), names who gets signals (FIOSETOWN), or changes files.
  for (const uint32_t type : {uint32_t{'F'} << 8, 0U}) {
    if (kind == Kind::kWorker) filter.Allow(SYS_ioctl, {Has(1, 0xff00, type)});
  }
  if (kind == Kind::kNetwork) {
    filter.Allow(SYS_setsockopt);
    // Of cards' drivers, and questions about interfaces and what is on its way.
    filter.Allow(SYS_ioctl, {Has(1, 0xff00, uint32_t{RDMA_IOCTL_MAGIC} << 8)});
    for (const uint32_t question :
         {SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFNETMASK, SIOCGIFBRDADDR, SIOCGIFMTU, SIOCGIFHWADDR,
          SIOCGIFINDEX, SIOCETHTOOL, SIOCGIFVLAN, SIOCBONDINFOQUERY, SIOCOUTQ})
      filter.Allow(SYS_ioctl, {Is(1, question)});
  }
  for (const uint32_t request : {FIONBIO, FIONREAD, FIOCLEX, FIONCLEX, TCGETS, TIOCGWINSZ})
    filter.Allow(SYS_ioctl, {Is(1, request)});
}

// What a service gets descriptors for, or never makes: it has its code when it enters.
void RestrictService(Filter& filter, Kind kind) {
  for (const int call : {SYS_bind, SYS_listen, SYS_pkey_mprotect}) filter.Leave(call);
  if (kind == Kind::kService) {
    for (const int call : {SYS_accept, SYS_accept4}) filter.Leave(call);
  }
  if (kind == Kind::kCarrier) {
    // Landlock knows the first of these since Linux 6.2, and times of files not at all.
    for (const int call : {SYS_truncate, SYS_utimensat, SYS_mkdirat, SYS_unlinkat, SYS_renameat2}) filter.Leave(call);
#if defined(__x86_64__)
    for (const int call : {SYS_utime, SYS_utimes, SYS_futimesat, SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_rename, SYS_renameat})
      filter.Leave(call);
#endif
  }
  for (const int call : {SYS_mmap, SYS_mprotect}) filter.Allow(call, {Has(2, PROT_EXEC, 0)});
}

// Everything that has rules of its own but for `AllowKnownRequests`.
void AddRules(Filter& filter, Kind kind) {
  for (const KnownCall& call : RefusedCalls()) filter.Leave(call.number);
  AllowOwn(filter, kind);
  if (kind != Kind::kWorker && kind != Kind::kNetwork) RestrictService(filter, kind);
}

// Of the calls that reach nothing but the process those that have no rule yet.
void AllowRest(Filter& filter, Kind kind) {
  for (const KnownCall& call : AllowedCalls()) {
    if (!filter.Names(call.number)) filter.Allow(call.number);
  }
  AllowKnownRequests(filter, kind);
}

bool PrintFilter(const char* name, Kind kind, uint32_t unlisted) {
  Filter filter(SCMP_ACT_ERRNO(EPERM));
  AddRules(filter, kind);
  if (unlisted != SCMP_ACT_ALLOW || kind == Kind::kNetwork) AllowRest(filter, kind);
  filter.AddOthers(unlisted);
  return filter.Print(name);
}

bool PrintWatch(const char* name, Kind kind) {
  Filter filter(SCMP_ACT_NOTIFY);
  AddRules(filter, kind);
  for (const KnownCall& call : OpeningCalls()) filter.Leave(call.number);
  AllowRest(filter, kind);
  return filter.Print(name);
}

void PrintNames() {
  printf("inline constexpr const char* kCallNames[] = {\n");
  for (int call = 0; call < kNumbersEnd; ++call) {
    char* const name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);
    printf("    \"%s\",\n", name != nullptr ? name : "");
    free(name);
  }
  printf("};\n");
}

}  // namespace
}  // namespace tessera

int main() {
  printf("// Generated by make_call_programs.\n#pragma once\n\n#include <linux/filter.h>\n\nnamespace tessera {\n\n");
  using enum tessera::Kind;
  const bool done =
      tessera::PrintFilter("kAllowListProgram", kWorker, SCMP_ACT_ERRNO(ENOSYS)) &&
      tessera::PrintFilter("kRefusingListProgram", kWorker, SCMP_ACT_ALLOW) && tessera::PrintWatch("kWatchProgram", kWorker) &&
      tessera::PrintFilter("kServiceProgram", kService, SCMP_ACT_ERRNO(ENOSYS)) &&
      tessera::PrintWatch("kServiceWatchProgram", kService) &&
      tessera::PrintFilter("kBrokerProgram", kBroker, SCMP_ACT_ERRNO(ENOSYS)) &&
      tessera::PrintWatch("kBrokerWatchProgram", kBroker) &&
      tessera::PrintFilter("kCarrierProgram", kCarrier, SCMP_ACT_ERRNO(ENOSYS)) &&
      tessera::PrintWatch("kCarrierWatchProgram", kCarrier) &&
      tessera::PrintFilter("kNetworkProgram", kNetwork, SCMP_ACT_ALLOW) && tessera::PrintWatch("kNetworkWatchProgram", kNetwork);
  tessera::PrintNames();
  printf("\n}  // namespace tessera\n");
  return done && fflush(stdout) == 0 ? 0 : 1;
}
