#include "scheduler/admission.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

// Shares are written in decimals, whose sums miss by a few units in the last place.
constexpr double kRounding = 1e-9;

bool MayBeInName(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

Status Invalid(const VgpuSpec& spec, const std::string& what) {
  return Status(StatusCode::kInvalidArgument, fmt::format("vGPU '{}': {}", Printable(spec.name), what));
}

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

uint64_t Minus(uint64_t left, uint64_t right) { return left - std::min(left, right); }

uint64_t ContextsOf(const VgpuSpec& spec, const AdmissionRules& rules) {
  return rules.context_bytes > kMost / spec.processes ? kMost : rules.context_bytes * spec.processes;
}

// Short, and not rounded to what would fit.
std::string Share(double share) { return fmt::format("{:.6g}", share); }

}  // namespace

Status CheckVgpuSpec(const VgpuSpec& spec) {
  if (spec.name.empty()) return Status(StatusCode::kInvalidArgument, "name: it is empty");
  if (spec.name.size() > kVgpuNameBytesMax) {
    return Invalid(spec, fmt::format("name: {} characters, {} more than {}", spec.name.size(),
                                     spec.name.size() - kVgpuNameBytesMax, kVgpuNameBytesMax));
  }
  if (!std::all_of(spec.name.begin(), spec.name.end(), MayBeInName)) {
    return Invalid(spec, "name: only A-Z, a-z, 0-9, '.', '_' and '-' may be in it");
  }
  if (!std::isfinite(spec.request)) return Invalid(spec, "request: it is no number");
  if (!std::isfinite(spec.limit)) return Invalid(spec, "limit: it is no number");
  if (spec.request < 0) return Invalid(spec, fmt::format("request {} is {} below 0", Share(spec.request), Share(-spec.request)));
  if (spec.request > 1)
    return Invalid(spec, fmt::format("request {} is {} above 1", Share(spec.request), Share(spec.request - 1)));
  if (spec.limit <= 0) return Invalid(spec, fmt::format("limit {} is not above 0", Share(spec.limit)));
  if (spec.limit > 1) return Invalid(spec, fmt::format("limit {} is {} above 1", Share(spec.limit), Share(spec.limit - 1)));
  if (spec.limit < spec.request) {
    return Invalid(spec, fmt::format("limit {} is {} below the request {}", Share(spec.limit), Share(spec.request - spec.limit),
                                     Share(spec.request)));
  }
  if (spec.processes == 0 || spec.processes > kVgpuProcessesMax)
    return Invalid(spec, fmt::format("processes {} is not 1 to {}", spec.processes, kVgpuProcessesMax));
  return Status::Ok();
}

Status AdmitVgpu(std::span<const VgpuSpec> present, const VgpuSpec& wanted, const AdmissionRules& rules) {
  RETURN_IF_ERROR(CheckVgpuSpec(wanted));
  double taken = 0;
  for (const VgpuSpec& spec : present) {
    if (spec.name == wanted.name) return Invalid(wanted, "name: a vGPU of this name is there already");
    taken += spec.request;
  }
  if (present.size() >= kVgpusMax) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("vGPU '{}': the GPU has {} vGPUs, and takes no more", wanted.name, present.size()));
  }
  if (wanted.request == 0 && !rules.request_zero)
    return Invalid(wanted, "request 0 is not admitted here: nothing is kept for it");
  const double most = rules.requests_max();
  if (const double over = taken + wanted.request - most; over > kRounding) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("vGPU '{}': request {} is {} too much: {} of {} are taken, {} are left", wanted.name,
                              Share(wanted.request), Share(over), Share(taken), Share(most), Share(std::max(0.0, most - taken))));
  }
  return Status::Ok();
}

uint64_t MemoryTakenBy(const VgpuSpec& spec, const AdmissionRules& rules) {
  const uint64_t contexts = ContextsOf(spec, rules);
  if (spec.memory_bytes == 0) return 0;
  return spec.memory_bytes > kMost - contexts ? kMost : spec.memory_bytes + contexts;
}

Status AdmitMemory(std::span<const VgpuSpec> present, const VgpuSpec& wanted, const AdmissionRules& rules) {
  const bool is_beside_grants = IsOfGrant(wanted) || std::any_of(present.begin(), present.end(), IsOfGrant);
  if (rules.memory_bytes == 0 || (wanted.memory_bytes == 0 && !is_beside_grants)) return Status::Ok();
  uint64_t left = rules.memory_bytes;
  std::string unlimited;
  for (const VgpuSpec& spec : present) {
    if (spec.memory_bytes != 0) {
      left = Minus(left, MemoryTakenBy(spec, rules));
    } else if (IsOfGrant(wanted) || IsOfGrant(spec)) {
      left = 0;
      unlimited = fmt::format("; vGPU '{}' has no limit of memory, and counts as the whole GPU beside grants", spec.name);
    }
  }
  if (wanted.memory_bytes == 0) {
    if (left == rules.memory_bytes) return Status::Ok();
    return Status(
        StatusCode::kResourceExhausted,
        fmt::format("vGPU '{}': without a limit of memory it counts as the whole GPU beside grants, {}, which is {} too "
                    "much: {} are left{}; give it a limit",
                    wanted.name, BytesText(rules.memory_bytes), BytesText(rules.memory_bytes - left), BytesText(left),
                    unlimited));
  }
  left = Minus(left, ContextsOf(wanted, rules));
  if (wanted.memory_bytes <= left) return Status::Ok();
  std::string sentence = fmt::format("vGPU '{}': memory {} is {} too much: the GPU has {} for vGPUs, and {} are left",
                                     wanted.name, BytesText(wanted.memory_bytes), BytesText(wanted.memory_bytes - left),
                                     BytesText(rules.memory_bytes), BytesText(left));
  if (rules.context_bytes != 0) {
    sentence += fmt::format(" beside {} of {}",
                            wanted.processes == 1 ? "its context" : fmt::format("contexts of {} processes", wanted.processes),
                            BytesText(ContextsOf(wanted, rules)));
  }
  return Status(StatusCode::kResourceExhausted, sentence + unlimited);
}

}  // namespace tessera
