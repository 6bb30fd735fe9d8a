#include "scheduler/busy_tally.h"

#include <algorithm>

#include "protocol/base/check.h"

namespace tessera {

void BusyTally::Reset(VgpuId vgpu) {
  if (vgpu >= accounts_.size()) accounts_.resize(vgpu + 1);
  accounts_[vgpu] = Account();
  std::erase(busy_, vgpu);
}

void BusyTally::Apply(const BusyEvent& event) {
  uint32_t& sessions = accounts_[event.vgpu].sessions;
  if (event.begins) {
    if (sessions++ == 0) busy_.push_back(event.vgpu);
    return;
  }
  CHECK(sessions > 0);
  if (--sessions == 0) busy_.erase(std::find(busy_.begin(), busy_.end(), event.vgpu));
}

}  // namespace tessera
