// Completion of one operation of a stream. Completed exactly once, by the thread that ran the operation; any thread may
// wait or ask. Completion carries the time, so an event is nothing but a fence it remembers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "protocol/base/clock.h"

namespace tessera::emulator {

class Fence {
 public:
  bool done() const { return time_ns_.load(std::memory_order_acquire) != 0; }
  void Complete() {
    time_ns_.store(MonotonicNs(), std::memory_order_release);
    time_ns_.notify_all();
  }
  void Wait() const {
    while (!done()) time_ns_.wait(0, std::memory_order_acquire);
  }
  // CLOCK_MONOTONIC at completion, 0 before.
  uint64_t time_ns() const { return time_ns_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> time_ns_{0};
};
using FencePtr = std::shared_ptr<Fence>;

}  // namespace tessera::emulator
