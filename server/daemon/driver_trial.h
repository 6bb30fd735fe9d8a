// Whether the driver works under the filter of system calls that workers have (server/sandbox/call_filter.h): tried when the
// daemon starts, in a process in the sandbox of workers, and remembered for each file of
// a driver that does.
#pragma once

#include "server/daemon/device_probe.h"
#include "server/daemon/options.h"

namespace tessera {

// Where a driver does what sessions need.
enum class WorksWhere {
  kInSandbox,
  kUnderRefusingList,  // in a sandbox that lets more calls through
  kOutside,            // in none
  kNowhere,            // the GPU is full or lost, or the driver is no good
};

struct TrialResult {
  WorksWhere works = WorksWhere::kInSandbox;
  std::string problem;  // a sentence; empty: there is none
};

// Tries it, or knows it.
TrialResult TryDriverInSandbox(const DeviceList& devices, const Options& options);

// What workers of this daemon get: into `*options`, with a word in the log where it is less than it should be. kServiceOk, or how
// the daemon ends, with a sentence on stderr: --sandbox require, and the driver does not work in all of it.
int ChooseCallFilter(const DeviceList& devices, Options* options);

// The child's side: returns the exit code.
int RunTrial(const Options& options);

}  // namespace tessera
