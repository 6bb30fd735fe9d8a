#include "scheduler/busy_tally.h"

#include "protocol/base/check.h"

namespace tessera {

void BusyTally::Reset(VgpuId vgpu) {
  if (vgpu >= accounts_.size()) accounts_.resize(vgpu + 1);
  accounts_[vgpu] = Account();
  Remove(vgpu);
}

void BusyTally::Apply(const BusyEvent& event) {
  uint32_t& sessions = accounts_[event.vgpu].sessions;
  if (event.begins) {
    if (sessions++ == 0) busy_.push_back({event.vgpu, busy_.empty() ? at_ns_ : at_ns_ + kTurnNs});
    return;
  }
  CHECK(sessions > 0);
  if (--sessions == 0) Remove(event.vgpu);
}

// Whoever has waited longest takes the place of the last one.
void BusyTally::Remove(VgpuId vgpu) {
  std::erase_if(busy_, [&](const Busy& each) { return each.vgpu == vgpu; });
  if (!busy_.empty()) busy_.front().turn_ns = std::min(busy_.front().turn_ns, at_ns_);
}

int64_t BusyTally::NextTurnNs() const {
  int64_t next_ns = INT64_MAX;
  for (const Busy& each : busy_) {
    if (each.turn_ns > at_ns_) next_ns = std::min(next_ns, each.turn_ns);
  }
  return next_ns;
}

}  // namespace tessera
