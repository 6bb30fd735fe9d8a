// Simulates a GPU, its workers and a broker in virtual time, for given loads.
//
// The GPU divides itself equally among the workers that have kernels, as a driver with time slices does. A worker's report
// reaches the broker after report_ns. A worker that sleeps at its gate runs wake_ns after the gate opens, or spin_ns if it was
// told that it is next. In free and armed mode the broker looks every millisecond who has worked. Equal calls give equal runs,
// bit for bit. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "scheduler/admission.h"
#include "scheduler/simulate/load.h"
#include "scheduler/simulate/traced_gpu_time.h"

namespace tessera {

// The vGPU of loads[load] has this spec from `at_ns` on.
struct SpecChange {
  int64_t at_ns = 0;
  size_t load = 0;
  VgpuSpec spec{};
};

struct SimulationOptions {
  std::string policy{"fair"};
  AdmissionRules rules{};
  int64_t duration_ns = 10 * kSecondNs;
  int64_t report_ns = 0;
  int64_t wake_ns = 0;
  int64_t spin_ns = 0;
  uint64_t seed = 1;
  std::vector<SpecChange> changes{};  // in order of time
};

// Tells `sink` what happens (trace.h), in the order in which the broker hears of it. All vGPUs are there from the beginning;
// sessions come and leave. kNotFound: there is no such policy. AdmitVgpu()'s errors: a vGPU does not fit, at the beginning or
// after a change.
Status Simulate(const SimulationOptions& options, const std::vector<Load>& loads, const TracedGpuTime::Sink& sink);

}  // namespace tessera
