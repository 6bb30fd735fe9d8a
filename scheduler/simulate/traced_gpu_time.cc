#include "scheduler/simulate/traced_gpu_time.h"

namespace tessera {

Result<VgpuId> TracedGpuTime::AddVgpu(const VgpuSpec& spec, int64_t now_ns) {
  Result<VgpuId> vgpu = time_.AddVgpu(spec, now_ns);
  if (vgpu.ok()) sink_({.at_ns = now_ns, .kind = TraceKind::kVgpu, .id = *vgpu, .spec = spec});
  return vgpu;
}

Status TracedGpuTime::ChangeSpec(VgpuId vgpu, const VgpuSpec& spec, int64_t now_ns) {
  RETURN_IF_ERROR(time_.ChangeSpec(vgpu, spec));
  sink_({.at_ns = now_ns, .kind = TraceKind::kSpec, .id = vgpu, .spec = spec});
  return Status::Ok();
}

void TracedGpuTime::RemoveVgpu(VgpuId vgpu, int64_t now_ns) {
  time_.RemoveVgpu(vgpu);
  sink_({.at_ns = now_ns, .kind = TraceKind::kGone, .id = vgpu});
}

SessionId TracedGpuTime::SessionCame(VgpuId vgpu, int64_t now_ns) {
  const SessionId session = time_.SessionCame(vgpu, now_ns);
  sink_({.at_ns = now_ns, .kind = TraceKind::kCame, .id = session, .value = vgpu});
  return session;
}

void TracedGpuTime::SessionLeft(SessionId session, int64_t now_ns) {
  time_.SessionLeft(session, now_ns);
  sink_({.at_ns = now_ns, .kind = TraceKind::kLeft, .id = session});
}

void TracedGpuTime::SetWants(SessionId session, bool wants, int64_t at_ns) {
  time_.SetWants(session, wants, at_ns);
  sink_({.at_ns = at_ns, .kind = TraceKind::kWants, .id = session, .value = wants});
}

void TracedGpuTime::SetBusy(SessionId session, bool busy, int64_t at_ns) {
  if (busy) {
    time_.BusyBegan(session, at_ns);
  } else {
    time_.BusyEnded(session, at_ns);
  }
  sink_({.at_ns = at_ns, .kind = TraceKind::kBusy, .id = session, .value = busy});
}

void TracedGpuTime::SetQueued(SessionId session, int64_t estimate_ns, int64_t at_ns) {
  time_.SetQueued(session, estimate_ns, at_ns);
  sink_({.at_ns = at_ns, .kind = TraceKind::kQueued, .id = session, .value = estimate_ns});
}

void TracedGpuTime::Worked(SessionId session, int64_t at_ns) {
  time_.Worked(session, at_ns);
  sink_({.at_ns = at_ns, .kind = TraceKind::kWorked, .id = session});
}

void TracedGpuTime::SetTogether(SessionId session, bool together, int64_t now_ns) {
  time_.SetTogether(session, together);
  sink_({.at_ns = now_ns, .kind = TraceKind::kTogether, .id = session, .value = together});
}

void TracedGpuTime::SetWaitsElsewhere(SessionId session, bool waits, int64_t now_ns) {
  time_.SetWaitsElsewhere(session, waits);
  sink_({.at_ns = now_ns, .kind = TraceKind::kElsewhere, .id = session, .value = waits});
}

void TracedGpuTime::Appoint(VgpuId vgpu, int64_t at_ns, int64_t now_ns) {
  time_.Appoint(vgpu, at_ns);
  sink_({.at_ns = now_ns, .kind = TraceKind::kAppoint, .id = vgpu, .value = at_ns});
}

void TracedGpuTime::Grant(VgpuId vgpu, int64_t until_ns, int64_t now_ns) {
  time_.Grant(vgpu, until_ns);
  sink_({.at_ns = now_ns, .kind = TraceKind::kGrant, .id = vgpu, .value = until_ns});
}

GpuTime::Decision TracedGpuTime::Decide(int64_t now_ns) {
  const GpuTime::Decision decision = time_.Decide(now_ns);
  sink_({.at_ns = now_ns, .kind = TraceKind::kDecide});
  for (const VgpuId vgpu : decision.changed)
    sink_({.at_ns = now_ns, .kind = TraceKind::kGate, .id = vgpu, .gate = time_.gate(vgpu)});
  return decision;
}

}  // namespace tessera
