// Whether the driver works under the filter of system calls that workers have (server/sandbox/call_filter.h): tried when the
// daemon starts, in a process in the sandbox of workers, and remembered for each file of
// a driver that does.
#pragma once

#include "server/daemon/device_probe.h"
#include "server/daemon/options.h"

namespace tessera {

struct TrialResult {
  CallFilter calls = CallFilter::kAllowList;  // under which the driver works
  std::string problem;                        // what fails, as a sentence; empty: nothing does
};

// Tries it, or knows it. Where the driver works under neither filter it is not the filter's doing: kAllowList, and a problem.
TrialResult TryDriverInSandbox(const DeviceList& devices, const Options& options);

// What workers of this daemon get: into `*options`, with a word in the log where it is less than it should be. False, with a
// sentence on stderr: --sandbox require, and the driver fails under the filter.
bool ChooseCallFilter(const DeviceList& devices, Options* options);

// The child's side: returns the exit code.
int RunTrial(const Options& options);

}  // namespace tessera
