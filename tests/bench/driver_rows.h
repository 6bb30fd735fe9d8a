// The calls whose cost driver_bench measures, each a row with a name that stays.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/gpu_at_hand.h"

namespace tessera {

struct DriverRow {
  std::string name;
  // Of calls that only enqueue: the caller's own time counts, and what was started is waited for outside of the clock.
  bool caller = false;
  // So many of the calls.
  std::function<void(GpuAtHand& gpu, int count)> run;
  // Copied by one call; 0: none.
  size_t bytes = 0;
};

std::vector<DriverRow> DriverRows();

}  // namespace tessera
