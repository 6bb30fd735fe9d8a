// What the programs of a trace did, for simulating them with another policy. Pure; any thread.
#pragma once

#include <vector>

#include "scheduler/simulate/load.h"
#include "scheduler/simulate/trace.h"

namespace tessera {

// How much each session ran between two rests, and how long it rested, from time 0 on. One span of the trace becomes kernels of
// 200 µs, since a trace has no kernels.
std::vector<Load> LoadsOf(const SchedulerTrace& trace);

}  // namespace tessera
