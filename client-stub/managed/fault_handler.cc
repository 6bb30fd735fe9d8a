#include "client-stub/managed/fault_handler.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "client-stub/managed/service_thread.h"
#include "protocol/base/log.h"
#include "protocol/base/mutex.h"

namespace tessera {
namespace {

// What the signal handler reads is in static storage, outside of the process object: it is there whenever a thread touches memory
// that it may not, also in a forked child, and costs no look at a pointer that may be null.
//
// Written in order and never moved, so that a signal handler may read them.
struct Watched {
  std::atomic<uint64_t> base{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<void*> owner{nullptr};
  std::atomic<FaultResolver> resolver{nullptr};
};
constexpr int kWatchedMax = 1024;
Watched watched[kWatchedMax];
std::atomic<int> watched_count{0};

// Those who handled the signal before us, the latest last. Handlers stay: a thread may be about to call one.
constexpr int kEarlierMax = 16;
struct sigaction earlier[kEarlierMax];
std::atomic<int> earlier_count{0};
// For whoever writes to these; the handler takes no lock.
constinit Mutex install_mutex;

// Static storage of the thread's, which needs no allocation at first use.
#define SIGNAL_SAFE_TLS static thread_local __attribute__((tls_model("initial-exec")))
SIGNAL_SAFE_TLS int host_functions = 0;
// The fault that was handed to an earlier handler, and to which: one that hands it on to us means the handler before it.
SIGNAL_SAFE_TLS const void* handed_on = nullptr;
SIGNAL_SAFE_TLS int handed_to = 0;

struct FaultRequest : ServiceRequest {
  const Watched* where = nullptr;
  uint64_t address = 0;
  bool write = false;
  bool in_host_function = false;
  bool resolved = false;
};

void Resolve(ServiceRequest& request) {
  auto& fault = static_cast<FaultRequest&>(request);
  const FaultResolver resolver = fault.where->resolver.load(std::memory_order_acquire);
  fault.resolved =
      resolver(fault.where->owner.load(std::memory_order_acquire), fault.address, fault.write, fault.in_host_function);
}

const Watched* FindWatched(uint64_t address) {
  const int count = watched_count.load(std::memory_order_acquire);
  for (int i = 0; i < count; ++i) {
    if (address - watched[i].base.load(std::memory_order_relaxed) < watched[i].bytes.load(std::memory_order_relaxed)) {
      return &watched[i];
    }
  }
  return nullptr;
}

bool IsWrite([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  // Bit 1 of the page-fault error code (Intel SDM, volume 3, "Interrupt 14").
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  return false;  // a write is told by its second fault, when the page may be read
#endif
}

// What would have happened without us: the access is made again and ends the process, or the signal comes again.
void ActByDefault(int number, const siginfo_t* info) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(number, &action, nullptr);
  if (info->si_code <= 0) raise(number);
}

// Whether the handler whose frame this is was entered by a handler that we called, which hands on what is not its own.
bool IsHandedBack(const void* context, [[maybe_unused]] const void* frame) {
#if defined(__x86_64__)
  // The kernel enters a handler right below the context that it passes (Linux, struct rt_sigframe). What is remembered may be
  // of an earlier fault whose handler was left with a jump.
  return handed_on == context && static_cast<const char*>(context) - static_cast<const char*>(frame) > 64;
#else
  return handed_on == context;
#endif
}

void HandOn(int number, siginfo_t* info, void* context, bool handed_back) {
  const int level = handed_back ? handed_to - 1 : earlier_count.load(std::memory_order_acquire) - 1;
  if (level < 0) return ActByDefault(number, info);
  const struct sigaction& action = earlier[level];
  if ((action.sa_flags & SA_SIGINFO) == 0 && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)) {
    return ActByDefault(number, info);  // the kernel does not ignore a fault either
  }
  handed_on = context;
  handed_to = level;
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(number, info, context);
  } else {
    action.sa_handler(number);
  }
  handed_on = nullptr;
}

void Handle(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  FaultRequest fault;
  fault.address = reinterpret_cast<uint64_t>(info->si_addr);
  if (info->si_code == SEGV_ACCERR) fault.where = FindWatched(fault.address);
  // There since before anything was watched.
  ServiceThreads* const threads = fault.where == nullptr ? nullptr : PartOfProcess<ServiceThreads>::IfMade();
  if (threads != nullptr) {
    fault.run = Resolve;
    fault.write = IsWrite(context);
    fault.in_host_function = host_functions != 0;
    ServiceThread& service = fault.in_host_function ? threads->of_host_functions() : threads->common();
    if (service.alive()) service.PostAndWait(fault);
  }
  errno = saved_errno;
  if (!fault.resolved) HandOn(number, info, context, IsHandedBack(context, __builtin_frame_address(0)));
}

}  // namespace

bool WatchFaults(const Range& range, void* owner, FaultResolver resolver) {
  MutexLock lock(install_mutex);
  const int count = watched_count.load(std::memory_order_relaxed);
  int slot = 0;
  while (slot < count) {
    const Range other{watched[slot].base.load(std::memory_order_relaxed), watched[slot].bytes.load(std::memory_order_relaxed)};
    if (range.base < other.end() && other.base < range.end()) break;
    ++slot;
  }
  if (slot == kWatchedMax) return false;
  watched[slot].owner.store(owner, std::memory_order_release);
  watched[slot].resolver.store(resolver, std::memory_order_release);
  watched[slot].base.store(range.base, std::memory_order_relaxed);
  watched[slot].bytes.store(range.bytes, std::memory_order_relaxed);
  if (slot == count) watched_count.store(count + 1, std::memory_order_release);
  return true;
}

bool EnsureFaultHandler() {
  struct sigaction current {};
  if (sigaction(SIGSEGV, nullptr, &current) != 0) return false;
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == Handle) return true;
  MutexLock lock(install_mutex);
  if (sigaction(SIGSEGV, nullptr, &current) != 0) return false;
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == Handle) return true;
  const int count = earlier_count.load(std::memory_order_relaxed);
  if (count == kEarlierMax) {
    LogWarning("SIGSEGV was taken from managed memory {} times: its handler is not installed again", count);
    return false;
  }
  earlier[count] = current;
  earlier_count.store(count + 1, std::memory_order_release);
  struct sigaction ours {};
  ours.sa_sigaction = Handle;
  // On the thread's own signal stack where it has one; other signals may come meanwhile as their mask says. NODEFER as an
  // earlier handler had it, so that it may be left with a jump or fault itself.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (current.sa_flags & SA_NODEFER);
  ours.sa_mask = current.sa_mask;
  return sigaction(SIGSEGV, &ours, nullptr) == 0;
}

HostFunctionFaults::HostFunctionFaults() {
  if (host_functions++ != 0) return;
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

HostFunctionFaults::~HostFunctionFaults() { --host_functions; }

}  // namespace tessera
