// The place where one thread waits for one reply. The thread that drains the `replies` ring writes it, the waiting thread reads
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

class ReplySlot {
 public:
  enum State : uint32_t { kIdle = 0, kWaiting = 1, kAsleep = 2, kDone = 3 };

  // By the waiting thread, before its record is sent.
  void Open(uint64_t sequence) {
    sequence_ = sequence;
    state_.store(kWaiting, std::memory_order_relaxed);
  }
  uint64_t sequence() const { return sequence_; }
  bool done() const { return state_.load(std::memory_order_acquire) == kDone; }
  // After done(): CUDA's result and the reply message, valid until the next Open().
  int32_t result() const { return result_; }
  std::span<const std::byte> payload() const { return {payload_.data(), payload_.size()}; }

  // By the draining thread, once per Open(): copies the reply and wakes the waiting thread where it sleeps.
  void Complete(int32_t result, std::span<const std::byte> payload);
  // By the waiting thread: sleeps until done or `timeout_ns` passed.
  void Sleep(uint64_t timeout_ns);

 private:
  uint64_t sequence_ = 0;
  std::atomic<uint32_t> state_{kIdle};
  int32_t result_ = 0;
  std::vector<std::byte> payload_;
};

}  // namespace tessera
