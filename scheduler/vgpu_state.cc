#include "scheduler/vgpu_state.h"

#include <algorithm>

namespace tessera {

std::string_view GpuModeName(GpuMode mode) {
  switch (mode) {
    case GpuMode::kFree: return "free";
    case GpuMode::kArmed: return "armed";
    case GpuMode::kMetered: return "metered";
  }
  return "unknown";
}

void VgpuState::Changed(bool was_active, int64_t at_ns, int64_t billed_ns) {
  if (!was_active && active()) {
    burst.Resumed(at_ns, billed_ns);
    waiting_since_ns = at_ns;
    arrived = true;
  }
  if (was_active && !active()) {
    burst.Rested(at_ns);
    rested_since_ns = at_ns;
    arrived = false;
  }
  if (!busy() && overran_since_ns >= 0) {
    bucket.Overran(at_ns - overran_since_ns);
    WorkedUntil(at_ns, overran_since_ns);
    overran_since_ns = -1;
  }
}

void VgpuState::WorkedUntil(int64_t at_ns, int64_t token_end_ns) { overran_ns = std::max(overran_ns, at_ns - token_end_ns); }

void VgpuState::TokenEnded(int64_t at_ns, int64_t billed_ns) {
  if (active()) burst.TokenUsedUp(billed_ns);
  overran_ns -= overran_ns / 4;
  if (busy()) overran_since_ns = at_ns;
  waiting_since_ns = at_ns;
}

}  // namespace tessera
