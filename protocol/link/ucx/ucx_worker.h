// One connection's share of UCX: a worker, the lock around it, and waiting for it without burning a processor.
//
// UCX does nothing by itself: messages travel only while somebody calls its progress function. A thread that waits for something
// calls it: it spins, then one of the waiting threads watches UCX's descriptor and the others wait for that one. If nobody waits
// and something is unfinished, a thread of the worker calls it.
//
//   {
//     UcxWorker::Hold hold(worker);  // around every call of UCX
//     worker.ucx().ucp_am_send_nbx(...);
//   }
//   worker.Wait(spin, [&] { return answered_; }, deadline_ns);  // without it
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/ucx/ucx_library.h"

namespace tessera {

class UcxWorker {
 public:
  static Result<std::unique_ptr<UcxWorker>> Make(UcxReach reach);
  ~UcxWorker();  // no thread waits, every endpoint is closed
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const UcxLibrary& ucx() const { return ucx_; }
  ucp_context_h context() const { return context_; }
  ucp_worker_h get() const { return worker_; }

  // The lock around every call of UCX for this worker. UCX's callbacks run under it, in Wait() of any thread. Spinning threads
  // make way for it.
  class SCOPED_CAPABILITY Hold {
   public:
    explicit Hold(UcxWorker& worker) ACQUIRE(worker.mutex_);
    ~Hold() RELEASE() { worker_.mutex_.unlock(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    UcxWorker& worker_;
  };

  // Waits until ready() is true; false at the deadline (MonotonicNs). ready() is called with the lock held, and not again once it
  // was true. Any number of threads.
  using Ready = std::function<bool()>;
  bool Wait(AdaptiveSpin& spin, const Ready& ready, uint64_t deadline_ns) EXCLUDES(mutex_);
  // Sets what the worker's thread calls every kTickNs, with the lock held, after it has taken what has arrived. Call this once,
  // before any wait.
  static constexpr uint64_t kTickNs = 1'000'000'000;
  void SetTick(std::function<void()> tick);
  // Says that some thread's ready() may be true now. With the lock held; UCX's callbacks call it too, so it has no annotation.
  void Changed();
  // `change` more operations are unfinished. They are driven on even if nobody waits. With the lock held.
  void Unfinished(int change);

 private:
  UcxWorker(const UcxLibrary& ucx, ucp_context_h context, ucp_worker_h worker, int event_fd, UniqueFd wake);
  unsigned Progress() REQUIRES(mutex_);
  // Sleeps until something happens, for this and all waiting threads, without the mutex. True if `ready` was true before it
  // slept.
  bool Watch(const Ready& ready, uint64_t sleep_ns_max) REQUIRES(mutex_);
  void Keep();  // the thread of its own
  void Tick() REQUIRES(mutex_);

  const UcxLibrary& ucx_;
  const ucp_context_h context_;
  const ucp_worker_h worker_;
  const int event_fd_;   // UCX's
  const UniqueFd wake_;  // an eventfd: the watching thread is to look around
  Mutex mutex_;
  std::atomic<int> wanted_{0};  // threads that want the mutex for more than a look
  ConditionVariable changed_;
  ConditionVariable keep_;  // for the thread of the worker's own
  int waiting_ = 0;         // threads that wait for changed_
  bool watching_ = false;   // one is in Watch()
  int unfinished_ = 0;
  uint64_t progressed_ = 0;  // calls of Progress()
  bool ending_ = false;
  std::function<void()> tick_;
  uint64_t next_tick_ns_;
  std::thread keeper_;
};

}  // namespace tessera
