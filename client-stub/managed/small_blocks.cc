#include "client-stub/managed/small_blocks.h"

namespace tessera {

std::optional<SmallBlocks::Taken> SmallBlocks::Take(uint64_t bytes) {
  const std::optional<Range> range = blocks_.Allocate(bytes);
  if (!range) return std::nullopt;
  Taken taken{*range, false};
  const uint64_t first = (range->base - blocks_.whole().base) / kManagedPageBytes;
  for (uint64_t page = first; page < first + range->bytes / kManagedPageBytes; ++page) {
    taken.used_before = taken.used_before || used_before_[page];
    used_before_[page] = true;
  }
  return taken;
}

}  // namespace tessera
