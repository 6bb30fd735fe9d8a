// A mutex for the few instructions that every call goes through. Taking it is one atomic operation, giving it back an ordinary
// store. (std::mutex pays a second atomic operation, which waits for all stores of what it guarded to leave the core.)
//
// Nobody is woken. A thread that finds it taken spins, then sleeps in turns of kSleepNs, since the holder may be off its core.
#pragma once

#include <atomic>
#include <cstdint>

#include "protocol/base/mutex.h"

namespace tessera {

class CAPABILITY("mutex") ShortMutex {
 public:
  static constexpr uint64_t kSleepNs = 20'000;

  void lock() ACQUIRE() {
    if (taken_.exchange(1, std::memory_order_acquire) != 0) [[unlikely]]
      WaitAndTake();
  }
  void unlock() RELEASE() { taken_.store(0, std::memory_order_release); }

 private:
  void WaitAndTake();

  std::atomic<uint32_t> taken_{0};
};

class SCOPED_CAPABILITY ShortLock {
 public:
  explicit ShortLock(ShortMutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~ShortLock() RELEASE() { mutex_.unlock(); }
  ShortLock(const ShortLock&) = delete;
  ShortLock& operator=(const ShortLock&) = delete;

 private:
  ShortMutex& mutex_;
};

}  // namespace tessera
