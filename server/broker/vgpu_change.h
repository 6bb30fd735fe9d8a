// From the vGPUs that a GPU has to those that are wanted: what is to be done, in an order in which each step is admitted. Pure;
// any thread.
//
// A vGPU that is not wanted any more takes no new sessions. Without sessions it goes at once. With sessions it stays until the
// last of them has ended: with its limit, priority and memory, and with its request as far as the wanted ones leave room for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "scheduler/admission.h"
#include "server/broker/vgpu_file.h"

namespace tessera {

struct PresentVgpu {
  VgpuSpec spec;
  uint32_t sessions = 0;
};

struct VgpuChange {
  std::vector<std::string> removed;  // go at once
  std::vector<std::string> retired;  // go with their last session; their specs are among `changed`
  std::vector<VgpuSpec> changed;     // by name; lowered requests before raised ones
  std::vector<FileVgpu> added;
};

// `wanted` are those of this GPU, in the order in which they are admitted; `default`, which nobody names, stays as it is.
// kInvalidArgument, kResourceExhausted as of AdmitVgpu(): the sentence begins with the line of the vGPU that does not fit, if it
// stands in a file.
Result<VgpuChange> PlanChange(std::span<const PresentVgpu> present, std::span<const FileVgpu> wanted,
                              const AdmissionRules& rules);

}  // namespace tessera
