// A span of managed memory from which small blocks are cut. Pure: no memory, no threads.
//
// The system bounds how many mappings a process has (vm.max_map_count). A block that lies alone costs two of them. Blocks of a
// span lie side by side, and cost one for all as long as their pages are protected alike. Each has whole pages of its own, so
// none of them notices the others. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client-stub/managed/shared_pages.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class SmallBlocks {
 public:
  static constexpr uint64_t kSpanBytes = uint64_t{2} << 20;
  // Larger blocks lie alone: a span has few of them.
  static constexpr uint64_t kBlockBytesMax = (uint64_t{64} << 10) - 1;

  // `span`: whole pages, with zeros in them.
  explicit SmallBlocks(const Range& span)
      : blocks_(span.base, span.bytes, kManagedPageBytes), used_before_(span.bytes / kManagedPageBytes) {}

  struct Taken {
    Range range;       // whole pages
    bool used_before;  // some of them had another block, so they have other bytes than zeros
  };
  // Takes pages for a block. Nothing: no room.
  std::optional<Taken> Take(uint64_t bytes);
  // Ends the block that starts at `base`: its pages may be taken again.
  void Free(uint64_t base) { blocks_.Free(base); }

  // The pages of the block that contains `address`.
  std::optional<Range> Find(uint64_t address) const { return blocks_.Find(address); }
  // The largest block for which there is room.
  uint64_t largest() const { return blocks_.largest_free(); }
  uint64_t count() const { return blocks_.used_count(); }

 private:
  RangeAllocator blocks_;
  std::vector<bool> used_before_;  // by page
};

}  // namespace tessera
