#include "server/broker/vgpu_change.h"

#include <fmt/core.h>

#include <algorithm>

namespace tessera {
namespace {

const VgpuSpec* Find(std::span<const PresentVgpu> present, const std::string& name) {
  const auto found =
      std::find_if(present.begin(), present.end(), [&](const PresentVgpu& each) { return each.spec.name == name; });
  return found == present.end() ? nullptr : &found->spec;
}

double LeftOf(std::span<const VgpuSpec> specs, const AdmissionRules& rules) {
  double left = rules.requests_max();
  for (const VgpuSpec& spec : specs) left -= spec.request;
  return std::max(0.0, left);
}

// 0 is no limit.
bool IsMore(uint64_t memory_bytes, uint64_t before) {
  return memory_bytes == 0 ? before != 0 : before == 0 || memory_bytes > before;
}

// Whether there is memory for those that are new or get more; the others have theirs. `default` has only what is left.
Status CheckMemory(std::span<const PresentVgpu> present, std::span<const FileVgpu> wanted, const AdmissionRules& rules) {
  std::vector<VgpuSpec> have;
  std::vector<const FileVgpu*> grow;
  for (const FileVgpu& vgpu : wanted) {
    const VgpuSpec* const before = Find(present, vgpu.spec.name);
    if (before != nullptr && !IsMore(vgpu.spec.memory_bytes, before->memory_bytes)) {
      have.push_back(vgpu.spec);
    } else {
      grow.push_back(&vgpu);
    }
  }
  for (const PresentVgpu& each : present) {
    if (each.spec.name == kDefaultVgpu) continue;
    const auto is_it = [&](const FileVgpu& vgpu) { return vgpu.spec.name == each.spec.name; };
    if (each.sessions > 0 && std::none_of(wanted.begin(), wanted.end(), is_it)) have.push_back(each.spec);
  }
  for (const FileVgpu* vgpu : grow) {
    if (const Status status = AdmitMemory(have, vgpu->spec, rules); !status.ok()) return AtLine(vgpu->line, status);
    have.push_back(vgpu->spec);
  }
  return Status::Ok();
}

}  // namespace

Result<VgpuChange> PlanChange(std::span<const PresentVgpu> present, std::span<const FileVgpu> wanted,
                              const AdmissionRules& rules) {
  VgpuChange change;
  std::vector<VgpuSpec> after;  // all that there will be
  if (const VgpuSpec* builtin = Find(present, std::string(kDefaultVgpu)); builtin != nullptr) after.push_back(*builtin);
  for (const FileVgpu& vgpu : wanted) {
    if (const Status status = AdmitVgpu(after, vgpu.spec, rules); !status.ok()) return AtLine(vgpu.line, status);
    after.push_back(vgpu.spec);
    const VgpuSpec* before = Find(present, vgpu.spec.name);
    if (before == nullptr) {
      change.added.push_back(vgpu);
    } else if (*before != vgpu.spec) {
      change.changed.push_back(vgpu.spec);
    }
  }
  for (const PresentVgpu& each : present) {
    const auto stays = [&](const VgpuSpec& spec) { return spec.name == each.spec.name; };
    if (std::any_of(after.begin(), after.end(), stays)) continue;
    if (each.sessions == 0) {
      change.removed.push_back(each.spec.name);
      continue;
    }
    VgpuSpec spec = each.spec;
    spec.request = std::min(spec.request, LeftOf(after, rules));
    if (const Status status = AdmitVgpu(after, spec, rules); !status.ok()) {
      return Status(status.code(),
                    fmt::format("vGPU '{}' is not wanted any more and has {} session{}, for which this leaves nothing: "
                                "end them, or keep it ({})",
                                spec.name, each.sessions, each.sessions == 1 ? "" : "s", status.message()));
    }
    after.push_back(spec);
    change.retired.push_back(spec.name);
    if (spec != each.spec) change.changed.push_back(spec);
  }
  RETURN_IF_ERROR(CheckMemory(present, wanted, rules));
  // Each step leaves less than what is there in the end.
  std::stable_partition(change.changed.begin(), change.changed.end(),
                        [&](const VgpuSpec& spec) { return spec.request <= Find(present, spec.name)->request; });
  return change;
}

}  // namespace tessera
