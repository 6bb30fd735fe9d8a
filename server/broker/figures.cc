#include "server/broker/figures.h"

#include <string>

#include "scheduler/vgpu_spec.h"

namespace tessera {

void AddFigures(const Gpu& gpu, int64_t now_ns, FiguresMessage* figures) {
  const GpuTime& time = gpu.time();
  figures->sharings.push_back({gpu.row(), std::string(time.policy().name()), std::string(GpuModeName(time.mode())), 0});
  // A GPU that is not metered bills nothing, and its books are as old as the last decision.
  const bool metered = time.mode() == GpuMode::kMetered;
  const auto share = [&](VgpuId vgpu, Window window, int64_t window_ns) {
    return metered ? static_cast<double>(time.ledger().UsedNs(vgpu, window)) / static_cast<double>(window_ns) : 0;
  };
  for (const VgpuId id : time.vgpus()) {
    const VgpuState& state = time.state(id);
    ServerReport::Vgpu& vgpu = figures->vgpus.emplace_back();
    vgpu.name = state.spec.name;
    vgpu.device = gpu.row();
    vgpu.request = state.spec.request;
    vgpu.limit = state.spec.limit;
    vgpu.priority = PriorityName(state.spec.priority);
    vgpu.sessions = state.sessions;
    vgpu.waits = state.wants();
    vgpu.got_1s = share(id, Window::kOneSecond, kSecondNs);
    vgpu.got_10s = share(id, Window::kTenSeconds, 10 * kSecondNs);
    vgpu.waited_ms = static_cast<uint64_t>(state.waited_ns / kMillisecondNs);
    const RowWatch::Backlog before = gpu.QueuedBefore(id, now_ns);
    vgpu.queued_before_ms = static_cast<uint64_t>(before.took_ns / kMillisecondNs);
    vgpu.queued_before_runs = before.runs;
    vgpu.memory_limit_bytes = state.spec.memory_bytes;
    const Gpu::Memory held = gpu.MemoryHeldBy(id);
    vgpu.memory_held_bytes = held.bytes;
    vgpu.memory_held_by_kind = held.by_kind;
  }
}

}  // namespace tessera
