#include "scheduler/static_slots.h"

#include <algorithm>

#include "scheduler/admission.h"

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
  const auto without = [](const SlotShare& share) { return share.request <= 0; };
  const auto count_without = static_cast<double>(std::count_if(shares.begin(), shares.end(), without));
  double requested = count_without > 0 ? kShareWithoutRequest : 0;
  for (const SlotShare& share : shares) requested += share.request;
  const double rest = std::max(0.0, 1 - requested) / static_cast<double>(std::max<size_t>(1, shares.size()));
  std::vector<StaticSlot> slots;
  slots.reserve(shares.size());
  int64_t begin_ns = 0;
  for (const SlotShare& share : shares) {
    const double own = without(share) ? kShareWithoutRequest / count_without : share.request;
    const auto wanted_ns = static_cast<int64_t>(std::min(own + rest, share.limit) * kSlotPeriodNs);
    const int64_t length_ns = std::min(wanted_ns, kSlotPeriodNs - begin_ns);
    slots.push_back({begin_ns, length_ns});
    begin_ns += length_ns;
  }
  return slots;
}

}  // namespace tessera
