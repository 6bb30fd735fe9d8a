// The highest sequence of a kind that was seen: what of an object stands in the ring of commands, and how old an answer is.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera {

// Any thread; a copy is a snapshot.
class LastSequence {
 public:
  LastSequence() = default;
  LastSequence(const LastSequence& other) : value_(other.value()) {}
  LastSequence& operator=(const LastSequence& other) {
    value_.store(other.value(), std::memory_order_relaxed);
    return *this;
  }

  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  void Raise(uint64_t sequence) {
    uint64_t known = value_.load(std::memory_order_relaxed);
    while (known < sequence && !value_.compare_exchange_weak(known, sequence, std::memory_order_release)) {
    }
  }

  // By the sender of the record `sequence` alone, with the lock held under which records get their numbers: no number that was
  // given out is greater, so what is there need not be looked at.
  void RaiseInOrder(uint64_t sequence) { value_.store(sequence, std::memory_order_release); }

 private:
  std::atomic<uint64_t> value_{0};
};

// What one was when it was looked at: a record may be appended on the condition that it still is (Session::AppendIf).
struct SeenSequence {
  const LastSequence* last = nullptr;
  uint64_t value = 0;

  static SeenSequence Of(const LastSequence& last) { return {&last, last.value()}; }
  bool unchanged() const { return last->value() == value; }
};

}  // namespace tessera
