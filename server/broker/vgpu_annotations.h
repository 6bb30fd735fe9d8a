// The annotations of vGPUs that FaST-GShare has (https://github.com/KontonGu/FaST-GShare), and the fields that they are other
// words for:
//
//   fastgshare/gpu_quota_request   request, a share from 0 to 1: "0.4"
//   fastgshare/gpu_quota_limit     limit, likewise
//   fastgshare/gpu_mem             memory, bytes in plain digits: "1073741824"
//   fastgshare/gpu_sm_partition    percent of the GPU's SMs, 1 to 100: "24"
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "protocol/base/status.h"

namespace tessera {

inline constexpr const char* kSmPartitionAnnotation = "fastgshare/gpu_sm_partition";

// By key.
using VgpuAnnotations = std::map<std::string, std::string>;

// What annotations can say; nothing: they do not.
struct AnnotatedFields {
  std::optional<double> request{}, limit{};
  std::optional<uint64_t> memory_bytes{};
  std::optional<uint32_t> sm_percent{};

  friend bool operator==(const AnnotatedFields&, const AnnotatedFields&) = default;
};

// `given`, which was said in fields, and what annotations say besides. kInvalidArgument, with key, value and the form that
// belongs there: an unknown key, a value of another form, one that is not what the field says. Whether limit and request suit
// each other is CheckVgpuSpec()'s to say.
Result<AnnotatedFields> ReadAnnotations(const VgpuAnnotations& annotations, const AnnotatedFields& given);

}  // namespace tessera
