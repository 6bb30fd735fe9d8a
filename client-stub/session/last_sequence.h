// The highest sequence seen of some kind of record. It tells which records about an object are in the ring of commands, and how
// old an answer is.
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

  // Only for the sender of record `sequence`, with the lock held under which records get their numbers. No greater number was
  // given out, so the old value need not be compared.
  void RaiseInOrder(uint64_t sequence) { value_.store(sequence, std::memory_order_release); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The value of a LastSequence when it was looked at. A record may be appended on condition that it is unchanged
// (Session::AppendIf).
struct SeenSequence {
  const LastSequence* last = nullptr;
  uint64_t value = 0;

  static SeenSequence Of(const LastSequence& last) { return {&last, last.value()}; }
  bool unchanged() const { return last->value() == value; }
};

}  // namespace tessera
