// The application's events that the completion thread is polling: they must not be destroyed before it is done with them.
#pragma once

#include <cuda.h>

#include <atomic>
#include <unordered_map>

#include "protocol/base/mutex.h"

namespace tessera {

class Worker;

// A part of the worker. Any thread.
class WatchedEvents {
 public:
  explicit WatchedEvents(Worker&) {}

  void Begin(CUevent event) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++watches_[event];
    count_.fetch_add(1, std::memory_order_release);
  }
  void End(CUevent event) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto watch = watches_.find(event);
    if (watch == watches_.end()) return;
    if (--watch->second == 0) watches_.erase(watch);
    count_.fetch_sub(1, std::memory_order_release);
  }
  bool IsWatched(CUevent event) EXCLUDES(mutex_) {
    if (count_.load(std::memory_order_acquire) == 0) return false;
    MutexLock lock(mutex_);
    return watches_.contains(event);
  }

 private:
  std::atomic<size_t> count_{0};
  Mutex mutex_;
  std::unordered_map<CUevent, size_t> watches_ GUARDED_BY(mutex_);
};

}  // namespace tessera
