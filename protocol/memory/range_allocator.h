// Hands out ranges of numbers: addresses of a window, bytes of a slab, offsets of a staging segment. It never touches what the
// numbers stand for, so it serves device memory, address space and shared memory alike.
//
// Uses the best fit among the free ranges, and of equal ones the lowest. Free() joins neighbours, in whatever order ranges are
// freed. All operations are logarithmic in the number of ranges. Not thread-safe: the owner has a lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tessera {

struct Range {
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint64_t end() const { return base + bytes; }
  bool contains(uint64_t address) const { return address - base < bytes; }
  // True when [address, address + length) lies inside. An empty range lies inside when its address does, or is the end.
  bool contains(uint64_t address, uint64_t length) const {
    return address >= base && length <= bytes && address - base <= bytes - length;
  }
  friend bool operator==(const Range&, const Range&) = default;
};

class RangeAllocator {
 public:
  // Manages [base, base + bytes). `granule` is a power of two, and `base` and `bytes` are multiples of it. So are the base and
  // size of every range handed out.
  RangeAllocator(uint64_t base, uint64_t bytes, uint64_t granule);

  // Takes a free range of at least `bytes` (rounded up to the granule) at a multiple of `alignment`. That is a power of two; one
  // below the granule means the granule. Nothing when no free range fits, or `bytes` is 0.
  std::optional<Range> Allocate(uint64_t bytes, uint64_t alignment = 1);
  // Takes the range at `base` itself. Nothing unless all of it is free and `base` is a multiple of the granule.
  std::optional<Range> AllocateAt(uint64_t base, uint64_t bytes);
  // Gives back the range that starts at `base` and returns its size. When no range in use starts there, changes nothing and
  // returns 0.
  uint64_t Free(uint64_t base);

  // The range in use that contains `address`; nothing when none does.
  std::optional<Range> Find(uint64_t address) const;
  bool Contains(uint64_t address) const { return whole_.contains(address); }
  const Range& whole() const { return whole_; }
  uint64_t used_bytes() const { return used_bytes_; }
  bool empty() const { return used_.empty(); }
  size_t used_count() const { return used_.size(); }
  uint64_t largest_free() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

 private:
  using Free_ = std::map<uint64_t, uint64_t>;  // base -> bytes
  void InsertFree(uint64_t base, uint64_t bytes);
  void EraseFree(Free_::iterator range);
  Range Take(Free_::iterator range, uint64_t base, uint64_t bytes);

  const Range whole_;
  const uint64_t granule_;
  uint64_t used_bytes_ = 0;
  std::map<uint64_t, uint64_t> used_;
  Free_ free_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (bytes, base) of every free range
};

}  // namespace tessera
