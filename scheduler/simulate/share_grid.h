// Cuts a timeline into steps of 10 ms: what each vGPU got, what it wanted, and what would have been ideal. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/simulate/timeline.h"

namespace tessera {

inline constexpr int64_t kGridStepNs = 10 * kMillisecondNs;

// Nanoseconds of one vGPU, one number for each whole step.
struct GridLane {
  std::vector<double> got_ns;
  std::vector<double> wanted_ns;
  std::vector<double> ideal_ns;  // requests met, the rest to whoever has least, among those that wanted the GPU in that step
};

struct ShareGrid {
  std::vector<GridLane> lanes;
  size_t steps = 0;
  double busy_ns = 0;               // of the whole timeline: anybody ran
  double idle_while_wanted_ns = 0;  // of the whole timeline
};

ShareGrid MakeShareGrid(const Timeline& timeline);

}  // namespace tessera
