// Fixed slots in a period of 100 ms. Workers keep to them while no broker tells them whose turn it is. The policy `fixed` is made
// of them.
//
// Each vGPU has its request. All with request 0 have kShareWithoutRequest between them. The rest is divided equally, up to each
// one's limit. Periods begin at time 0 of the caller's clock. Everybody who keeps to the same slots uses the same clock. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/usage_history.h"

namespace tessera {

inline constexpr int64_t kSlotPeriodNs = 100 * kMillisecondNs;

// A part of each period: [begin_ns, begin_ns + length_ns) of it.
struct StaticSlot {
  int64_t begin_ns = 0;
  int64_t length_ns = 0;

  // The end of the slot, if `now_ns` is in it; else `now_ns`.
  int64_t OpenUntilNs(int64_t now_ns) const;
  // When it begins next, after `now_ns`.
  int64_t NextBeginNs(int64_t now_ns) const;
  friend bool operator==(const StaticSlot&, const StaticSlot&) = default;
};

struct SlotShare {
  double request = 0;
  double limit = 1;
};

// A slot for each of `shares`, in their order and without overlap. Requests add up to 1 at most.
std::vector<StaticSlot> DivideIntoSlots(std::span<const SlotShare> shares);

}  // namespace tessera
