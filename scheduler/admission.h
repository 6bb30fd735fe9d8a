// Whether a vGPU fits on a GPU beside those that are there. Pure; any thread.
#pragma once

#include <span>

#include "protocol/base/status.h"
#include "scheduler/vgpu_spec.h"

namespace tessera {

// Of each 10 s, what all vGPUs with request 0 together get, where a GPU admits any.
inline constexpr double kShareWithoutRequest = 0.01;
// vGPUs of one GPU. 64 want to be decided among in 5 µs; four times that is the most that was measured.
inline constexpr size_t kVgpusMax = 256;

struct AdmissionRules {
  bool request_zero = true;    // vGPUs with request 0 are admitted, so that requests add up to 1 - kShareWithoutRequest at most
  uint64_t memory_bytes = 0;   // that vGPUs with a limit of memory may have together; 0: not known
  uint64_t context_bytes = 0;  // that each of VgpuSpec::processes takes besides

  double requests_max() const { return request_zero ? 1 - kShareWithoutRequest : 1; }
};

// Name, shares and priority by themselves. kInvalidArgument: the sentence names the field, its value and the bound.
Status CheckVgpuSpec(const VgpuSpec& spec);

// `wanted` beside `present`, each of which was admitted. kInvalidArgument: as above, a name that is there already, or request 0
// where it is not admitted; kResourceExhausted: the requests do not fit, by how much, or there are kVgpusMax. Nothing changes for
// those present. To change a spec, leave the present one out.
Status AdmitVgpu(std::span<const VgpuSpec> present, const VgpuSpec& wanted, const AdmissionRules& rules);

// A limit of memory, with the contexts that have room beside it; 0 without a limit.
uint64_t MemoryTakenBy(const VgpuSpec& spec, const AdmissionRules& rules);

// Whether the memory of `wanted` fits beside that of `present`. Not part of AdmitVgpu(): memory is compared for all that there
// will be, where time is for each step of a change. `present` is without `default`. kResourceExhausted: it does not fit, by how
// much.
//
// A vGPU without a limit counts as nothing beside others of files and administrators, who know what they mix. A grant
// (kGrantPrefix) was promised its memory, so beside grants such a vGPU counts as all that vGPUs may have; and so does a grant
// without a limit.
Status AdmitMemory(std::span<const VgpuSpec> present, const VgpuSpec& wanted, const AdmissionRules& rules);

}  // namespace tessera
