// Fixed parts of a period of 100 ms: what workers go by when nobody tells them whose turn it is, and what the policy `fixed` is.
//
// Each vGPU has its request (those with request 0 have kShareWithoutRequest between them), and what is left is divided equally,
// up to each one's limit. Periods are counted from time 0 of the caller's clock, which all that go by the same slots share. Pure;
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

  // The end of the slot that holds `now_ns`; `now_ns` itself outside of it.
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
