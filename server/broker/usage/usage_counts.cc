#include "server/broker/usage/usage_counts.h"

#include <algorithm>
#include <utility>

#include "server/broker/vgpu_file.h"

namespace tessera {
namespace {

constexpr size_t kBatchBytesMax = kUsageMessageBytesMax / 2;

// The same vGPU then: as a rule at the same place.
const VgpuMetrics* Find(const Metrics* metrics, const VgpuMetrics& like, size_t place) {
  if (metrics == nullptr) return nullptr;
  const auto is_it = [&](const VgpuMetrics& each) { return each.row == like.row && each.name == like.name; };
  if (place < metrics->vgpus.size() && is_it(metrics->vgpus[place])) return &metrics->vgpus[place];
  const auto found = std::ranges::find_if(metrics->vgpus, is_it);
  return found == metrics->vgpus.end() ? nullptr : &*found;
}

// What a counter gained. One that went back is another vGPU's of the same name: it began at 0.
uint64_t Gained(double before, double now, double scale) {
  const double gained = now >= before ? now - before : now;
  return static_cast<uint64_t>(std::clamp(gained * scale, 0.0, 1e18));
}

}  // namespace

std::vector<UsageBatch> UsageSince(const Metrics* before, const Metrics& now, int64_t second) {
  std::vector<UsageBatch> batches;
  size_t bytes = kBatchBytesMax;
  for (size_t i = 0; i < now.vgpus.size(); ++i) {
    const VgpuMetrics& vgpu = now.vgpus[i];
    if (vgpu.name == kDefaultVgpu) continue;
    static const VgpuMetrics kNothing;
    const VgpuMetrics* const found = Find(before, vgpu, i);
    const VgpuMetrics& was = found == nullptr ? kNothing : *found;
    UsageBatch::Record record{.name = vgpu.name, .gpu = vgpu.gpu, .owners = vgpu.owners, .sums = {}};
    record.sums.busy_us = Gained(was.busy_s, vgpu.busy_s, 1e6);
    record.sums.wait_us = Gained(was.waited_s, vgpu.waited_s, 1e6);
    record.sums.active_us = Gained(was.active_s, vgpu.active_s, 1e6);
    record.sums.launches = Gained(was.work.kernels + was.work.graphs, vgpu.work.kernels + vgpu.work.graphs, 1);
    if (vgpu.sessions == 0 && record.sums == UsageSums{}) continue;
    record.sums.memory_peak_bytes = vgpu.memory_held_bytes;
    record.sums.memory_peak_by_kind = vgpu.memory_held_by_kind;
    if (record.owners.size() > UsageBatch::kOwnersBytesMax) record.owners.clear();  // administrators alone
    if (bytes + record.bytes() > kBatchBytesMax) {
      batches.push_back({second, {}});
      bytes = 0;
    }
    bytes += record.bytes();
    batches.back().records.push_back(std::move(record));
  }
  return batches;
}

}  // namespace tessera
