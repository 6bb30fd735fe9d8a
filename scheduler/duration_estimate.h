// How long kernels and graphs take, learned by key. A key stands for whatever makes two launches alike: function, grid, block and
// shared memory, or an executable graph; the caller hashes them into 64 bits.
//
// A table of fixed size: a key has one of two places, and where both are taken it gets that of the one that was used less lately.
// So memory is bounded (kEntries x 24 bytes = 96 KiB), and a key that was displaced is learned anew. O(1). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tessera {

class DurationEstimate {
 public:
  static constexpr size_t kEntries = 4096;

  DurationEstimate() : entries_(kEntries) {}

  // A launch of `key` took `duration_ns`. Rises at once, falls by a quarter of the way: a queue that is longer than believed
  // costs others more than one that is shorter.
  void Learn(uint64_t key, int64_t duration_ns);
  // Nothing when the key was never learned, or was displaced since.
  std::optional<int64_t> Find(uint64_t key);
  // Whether its last two launches took about as long as each other: half as long to twice. What was held up once is none of that.
  bool IsSure(uint64_t key) const;

 private:
  struct Entry {
    uint64_t key = 0;
    int64_t duration_ns = -1;  // -1: free
    uint64_t used : 63 = 0;    // the larger, the later
    uint64_t sure : 1 = 0;
  };
  size_t First(uint64_t key) const;
  size_t Second(uint64_t key) const;

  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace tessera
