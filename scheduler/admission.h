// Whether a vGPU fits on a GPU beside those that are there. Pure; any thread.
#pragma once

#include <span>

#include "protocol/base/status.h"
#include "scheduler/vgpu_spec.h"

namespace tessera {

// Of each 10 s, what all vGPUs with request 0 together get, where a GPU admits any.
inline constexpr double kShareWithoutRequest = 0.01;
// vGPUs of one GPU. A decision among 64 has to take 5 µs at most; 256 is the most that was measured.
inline constexpr size_t kVgpusMax = 256;

struct AdmissionRules {
  bool request_zero = true;    // vGPUs with request 0 are admitted, so that requests add up to 1 - kShareWithoutRequest at most
  uint64_t memory_bytes = 0;   // for all vGPUs with a limit of memory together; 0: not known
  uint64_t context_bytes = 0;  // what each of VgpuSpec::processes takes besides

  double requests_max() const { return request_zero ? 1 - kShareWithoutRequest : 1; }
};

// Name, shares and priority by themselves. kInvalidArgument: the sentence names the field, its value and the bound.
Status CheckVgpuSpec(const VgpuSpec& spec);

// Whether `wanted` fits beside `present`, each of which was admitted. Changes nothing. To change a spec, leave the present one
// out. kInvalidArgument: as above; or the name is there already; or request 0 where none is admitted. kResourceExhausted: the
// requests do not fit, by how much, or there are kVgpusMax.
Status AdmitVgpu(std::span<const VgpuSpec> present, const VgpuSpec& wanted, const AdmissionRules& rules);

// The limit of memory plus the contexts that have room beside it; 0: no limit.
uint64_t MemoryTakenBy(const VgpuSpec& spec, const AdmissionRules& rules);

// Whether the memory of `wanted` fits beside that of `present`. Not part of AdmitVgpu(): time has to fit at each step of a
// change, memory only once all steps are done. `present` is without `default`. kResourceExhausted: it does not fit, by how much.
//
// A vGPU without a limit counts as nothing beside vGPUs of files and administrators, who know what they mix. Beside a grant
// (kGrantPrefix), which was promised its memory, it counts as all the memory that vGPUs may have. So does a grant without a
// limit.
Status AdmitMemory(std::span<const VgpuSpec> present, const VgpuSpec& wanted, const AdmissionRules& rules);

}  // namespace tessera
