#include "protocol/memory/range_allocator.h"

#include <algorithm>

#include "protocol/base/check.h"

namespace tessera {
namespace {

bool IsPowerOfTwo(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

}  // namespace

RangeAllocator::RangeAllocator(uint64_t base, uint64_t bytes, uint64_t granule) : whole_{base, bytes}, granule_(granule) {
  CHECK(IsPowerOfTwo(granule));
  CHECK(base % granule == 0 && bytes % granule == 0);
  CHECK(base + bytes >= base);
  if (bytes != 0) InsertFree(base, bytes);
}

std::optional<Range> RangeAllocator::Allocate(uint64_t bytes, uint64_t alignment) {
  if (bytes == 0 || bytes > whole_.bytes) return std::nullopt;
  CHECK(IsPowerOfTwo(alignment));
  bytes = (bytes + granule_ - 1) & ~(granule_ - 1);
  alignment = std::max(alignment, granule_);
  for (auto it = by_size_.lower_bound({bytes, 0}); it != by_size_.end(); ++it) {
    const auto [free_bytes, free_base] = *it;
    if (free_base > UINT64_MAX - (alignment - 1)) continue;
    const uint64_t base = (free_base + alignment - 1) & ~(alignment - 1);
    if (base - free_base <= free_bytes - bytes) return Take(free_.find(free_base), base, bytes);
  }
  return std::nullopt;
}

std::optional<Range> RangeAllocator::AllocateAt(uint64_t base, uint64_t bytes) {
  if (bytes == 0 || bytes > whole_.bytes || base % granule_ != 0) return std::nullopt;
  bytes = (bytes + granule_ - 1) & ~(granule_ - 1);
  auto it = free_.upper_bound(base);
  if (it == free_.begin()) return std::nullopt;
  --it;
  if (!Range{it->first, it->second}.contains(base, bytes)) return std::nullopt;
  return Take(it, base, bytes);
}

uint64_t RangeAllocator::Free(uint64_t base) {
  const auto used = used_.find(base);
  if (used == used_.end()) return 0;
  const uint64_t bytes = used->second;
  used_.erase(used);
  used_bytes_ -= bytes;

  uint64_t joined_base = base;
  uint64_t joined_bytes = bytes;
  auto after = free_.lower_bound(base);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == base) {
      joined_base = before->first;
      joined_bytes += before->second;
      EraseFree(before);
    }
  }
  if (after != free_.end() && after->first == base + bytes) {
    joined_bytes += after->second;
    EraseFree(after);
  }
  InsertFree(joined_base, joined_bytes);
  return bytes;
}

std::optional<Range> RangeAllocator::Find(uint64_t address) const {
  auto it = used_.upper_bound(address);
  if (it == used_.begin()) return std::nullopt;
  --it;
  const Range range{it->first, it->second};
  if (!range.contains(address)) return std::nullopt;
  return range;
}

void RangeAllocator::InsertFree(uint64_t base, uint64_t bytes) {
  free_.emplace(base, bytes);
  by_size_.emplace(bytes, base);
}

void RangeAllocator::EraseFree(Free_::iterator range) {
  by_size_.erase({range->second, range->first});
  free_.erase(range);
}

// Cuts [base, base + bytes) out of a free range.
Range RangeAllocator::Take(Free_::iterator range, uint64_t base, uint64_t bytes) {
  const Range whole{range->first, range->second};
  EraseFree(range);
  if (base > whole.base) InsertFree(whole.base, base - whole.base);
  if (base + bytes < whole.end()) InsertFree(base + bytes, whole.end() - base - bytes);
  used_.emplace(base, bytes);
  used_bytes_ += bytes;
  return Range{base, bytes};
}

}  // namespace tessera
