#include "protocol/rpc/memory_bound.h"

#include <algorithm>

namespace tessera {

MemoryBound::Found MemoryBound::Look(size_t bytes, size_t bytes_max, bool nobody, uint64_t now_ns) {
  if (bytes <= own_bytes_ + bytes_max) {
    much_from_ns_ = 0;
    return Found::kFits;
  }
  if (much_from_ns_ == 0) {
    much_from_ns_ = now_ns;
    least_alone_ = SIZE_MAX;
  }
  if (nobody) least_alone_ = std::min(least_alone_, bytes);
  if (now_ns - much_from_ns_ < kOwnNs) return Found::kMuch;
  much_from_ns_ = 0;
  if (least_alone_ == SIZE_MAX) return Found::kMuch;
  own_bytes_ = least_alone_;
  return Found::kMuchOwn;
}

}  // namespace tessera
