#include "server/broker/metrics.h"

#include "server/broker/broker.h"
#include "server/broker/gpu_name.h"

namespace tessera {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string OwnersOf(const BookedVgpu* vgpu) {
  if (vgpu == nullptr) return "";
  if (vgpu->owners.empty()) return "*";
  std::string owners;
  for (const std::string& owner : vgpu->owners) owners += (owners.empty() ? "" : ",") + owner;
  return owners;
}

}  // namespace

Metrics MetricsOf(Broker& broker, int64_t now_ns) {
  Metrics metrics;
  metrics.at_ns = now_ns;
  for (uint32_t row = 0; row < broker.gpus().size(); ++row) {
    Gpu& gpu = broker.CountWorkOn(row);
    const GpuTime& time = gpu.time();
    GpuMetrics& of_gpu = metrics.gpus.emplace_back();
    of_gpu.row = row;
    of_gpu.gpu = GpuName(broker.gpus()[row]);
    of_gpu.policy = time.policy().name();
    for (const GpuMode mode : {GpuMode::kFree, GpuMode::kArmed, GpuMode::kMetered}) {
      of_gpu.in_mode_s[static_cast<size_t>(mode)] = Seconds(gpu.InModeNs(mode, now_ns));
    }
    of_gpu.busy_s = Seconds(time.ledger().GpuBusyNs());
    of_gpu.hand_overs = time.hand_overs();
    const bool metered = time.mode() == GpuMode::kMetered;
    for (const VgpuId id : time.vgpus()) {
      const VgpuState& state = time.state(id);
      const Gpu::Tally& tally = gpu.TallyOf(id);
      const BookedVgpu* const booked = broker.book().Find(state.spec.name);
      VgpuMetrics& vgpu = metrics.vgpus.emplace_back();
      vgpu.name = state.spec.name;
      vgpu.row = row;
      vgpu.gpu = of_gpu.gpu;
      vgpu.owners = OwnersOf(booked != nullptr && booked->gpu == row ? booked : nullptr);
      vgpu.request = state.spec.request;
      vgpu.limit = state.spec.limit;
      vgpu.used_10s = metered ? Seconds(time.ledger().UsedNs(id, Window::kTenSeconds)) / 10 : 0;
      vgpu.busy_s = Seconds(time.ledger().BilledNs(id));
      vgpu.waited_s = Seconds(state.waited_ns);
      vgpu.active_s = Seconds(tally.active_ns);
      vgpu.grants = state.grants;
      vgpu.sessions = state.sessions;
      const Gpu::Memory held = gpu.MemoryHeldBy(id);
      vgpu.memory_held_bytes = held.bytes;
      vgpu.memory_held_by_kind = held.by_kind;
      vgpu.memory_limit_bytes = state.spec.memory_bytes;
      vgpu.work = tally.work;
      vgpu.audit_findings = tally.audit_findings;
      vgpu.audit_memory_findings = tally.audit_memory_findings;
    }
  }
  return metrics;
}

}  // namespace tessera
