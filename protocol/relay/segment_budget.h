// What the segments of all sessions of a process may have together. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera {

class SegmentBudget {
 public:
  explicit SegmentBudget(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // False: there is no room for so many bytes, and nothing is taken.
  bool Take(uint64_t bytes) {
    uint64_t taken = taken_.load();
    do {
      if (taken > bytes_max_ || bytes > bytes_max_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes));
    return true;
  }
  // Notes bytes that are there, whether or not there is room for them.
  void Have(uint64_t bytes) { taken_.fetch_add(bytes); }
  void GiveBack(uint64_t bytes) { taken_.fetch_sub(bytes); }
  uint64_t bytes_max() const { return bytes_max_; }

 private:
  const uint64_t bytes_max_;
  std::atomic<uint64_t> taken_{0};
};

}  // namespace tessera
