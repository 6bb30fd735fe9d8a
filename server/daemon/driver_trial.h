// Tries whether the driver works under the workers' filter of system calls (server/sandbox/call_filter.h), when the daemon
// starts. The trial runs in a process in the workers' sandbox. A success is remembered for each file of a driver.
#pragma once

#include "server/daemon/device_probe.h"
#include "server/daemon/options.h"

namespace tessera {

// Where a driver can do what sessions need.
enum class WorksWhere {
  kInSandbox,
  kUnderRefusingList,  // in a sandbox that allows more calls
  kOutside,            // only without a sandbox
  kNowhere,            // the GPU is full or lost, or the driver is no good
};

struct TrialResult {
  WorksWhere works = WorksWhere::kInSandbox;
  std::string problem;  // a sentence; empty: no problem
};

// Tries the driver, or remembers an earlier trial.
TrialResult TryDriverInSandbox(const DeviceList& devices, const Options& options);

// Sets in `*options` what workers of this daemon get; the log says if it is less than usual. Returns kServiceOk, or the daemon's
// exit code with a sentence on stderr: --sandbox require, but the driver does not work in the whole sandbox.
int ChooseCallFilter(const DeviceList& devices, Options* options);

// The child's side: returns the exit code.
int RunTrial(const Options& options);

}  // namespace tessera
