#include "scheduler/static_slots.h"

#include <algorithm>

namespace tessera {
namespace {

int64_t WithinPeriod(int64_t now_ns) { return (now_ns % kSlotPeriodNs + kSlotPeriodNs) % kSlotPeriodNs; }

}  // namespace

int64_t StaticSlot::OpenUntilNs(int64_t now_ns) const {
  const int64_t at_ns = WithinPeriod(now_ns);
  const bool inside = at_ns >= begin_ns && at_ns < begin_ns + length_ns;
  return inside ? now_ns + begin_ns + length_ns - at_ns : now_ns;
}

int64_t StaticSlot::NextBeginNs(int64_t now_ns) const {
  const int64_t ahead_ns = begin_ns - WithinPeriod(now_ns);
  return now_ns + (ahead_ns > 0 ? ahead_ns : ahead_ns + kSlotPeriodNs);
}

std::vector<StaticSlot> DivideIntoSlots(std::span<const SlotShare> shares) {
  double requested = 0;
  for (const SlotShare& share : shares) requested += share.request;
  const double rest = std::max(0.0, 1 - requested) / static_cast<double>(std::max<size_t>(1, shares.size()));
  std::vector<StaticSlot> slots;
  slots.reserve(shares.size());
  int64_t begin_ns = 0;
  for (const SlotShare& share : shares) {
    const double part = std::min(share.request + rest, share.limit);
    const int64_t length_ns = std::min(static_cast<int64_t>(part * kSlotPeriodNs), kSlotPeriodNs - begin_ns);
    slots.push_back({begin_ns, length_ns});
    begin_ns += length_ns;
  }
  return slots;
}

}  // namespace tessera
