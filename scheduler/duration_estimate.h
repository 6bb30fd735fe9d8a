// How long kernels and graphs take, learned by key. A key is a hash of what makes two launches alike: function, grid, block and
// shared memory, or an executable graph. The caller makes it, of 64 bits.
//
// The table has a fixed size: kEntries x 24 bytes = 96 KiB. A key has two possible places. Where both are taken it displaces the
// key that was used least recently; that one has to be learned anew. O(1). One thread.
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

  // A launch of `key` took `duration_ns`. The estimate rises at once, and falls by a quarter of the way: an underestimated queue
  // costs others more than an overestimated one.
  void Learn(uint64_t key, int64_t duration_ns);
  // nullopt: the key was never learned, or was displaced since.
  std::optional<int64_t> Find(uint64_t key);
  // Whether its last two launches took about as long as each other: between half and twice. A launch that was held up once fails
  // this.
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
