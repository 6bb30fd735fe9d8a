// The application's events that client threads are waiting for (cuEventSynchronize) or poll (cuEventQuery).
//
// The completion thread polls such an event. Two things of the application's other threads may happen meanwhile:
// - the event is destroyed: done when nobody polls it any more;
// - it is recorded again: the waiting thread asked for the record before that (CUDA driver API, cuEventSynchronize), and a
//   loop that records again and again must not hold it up for ever. So just before the new record a stream of our own is
//   made to wait for the old one, and its end answers the waiting thread. A record in a capture cannot be asked about, and the
//   question would end the capture: nothing polls the event any more before it is made.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

class Worker;

// A part of the worker. Any thread, except where a line says otherwise.
class WatchedEvents {
 public:
  explicit WatchedEvents(Worker& worker) : worker_(worker) {}

  // Calls `done` once, when what was recorded in `event` until now is done. Otherwise nothing will be called and the code
  // is the driver's. With the caller's context current.
  CUresult Wait(CUevent event, std::function<void(CUresult)> done) EXCLUDES(mutex_);
  // Sends the completion mark `mark` when the event is done. Only the latest mark asked for is sent. A record in between
  // delays it, which the client knows of. With the caller's context current.
  CUresult SendMark(CUevent event, uint64_t mark) EXCLUDES(mutex_);
  // The event is about to be recorded again, in `stream` (contexts: null). Executor, aside and helper threads, before the
  // driver's call.
  void BeforeRecord(CUevent event, CUstream stream = nullptr) {
    if (count_.load(std::memory_order_acquire) != 0) Detach(event);
    if (stream != nullptr && IsWatched()) LeaveIfCaptured(event, stream);
  }
  // Destroys the event, now or when nobody polls it any more.
  CUresult Destroy(CUevent event) EXCLUDES(mutex_);

 private:
  static constexpr uint64_t kDestroyed = 0;  // in place of a mark: nobody waits for one any more

  // One waiting thread; answered by whoever is first.
  struct Waiter {
    explicit Waiter(std::function<void(CUresult)> done) : done(std::move(done)) {}
    void Finish(CUresult result) {
      if (!finished.exchange(true, std::memory_order_acq_rel)) done(result);
    }
    std::function<void(CUresult)> done;
    std::atomic<bool> finished{false};
    bool detached = false;  // a stream of ours answers it; guarded by the mutex
  };

  // Sends the event's latest mark when it is done. One watch for each event that has a mark.
  CUresult WatchForMark(CUcontext context, CUevent event);
  // False when the event is about to be destroyed, or cannot be watched.
  bool WatchAgain(CUcontext context, CUevent event) EXCLUDES(mutex_);
  uint64_t MarkOf(CUevent event) EXCLUDES(mutex_);
  // Takes the mark away; false when the event has a newer one.
  bool TakeMark(CUevent event, uint64_t mark) EXCLUDES(mutex_);
  bool IsWatched() const {
    return count_.load(std::memory_order_acquire) != 0 || marks_count_.load(std::memory_order_acquire) != 0;
  }
  void Detach(CUevent event) EXCLUDES(mutex_);
  void LeaveIfCaptured(CUevent event, CUstream stream) EXCLUDES(mutex_);
  // Whether the waiter was detached.
  bool Forget(CUevent event, const Waiter* waiter) EXCLUDES(mutex_);

  Worker& worker_;
  std::atomic<size_t> marks_count_{0};
  std::atomic<size_t> count_{0};
  Mutex mutex_;
  std::unordered_map<CUevent, std::vector<std::shared_ptr<Waiter>>> waiters_ GUARDED_BY(mutex_);
  std::unordered_map<CUevent, uint64_t> marks_ GUARDED_BY(mutex_);
};

}  // namespace tessera
