#include "scheduler/gpu_time.h"

#include <algorithm>

#include "protocol/base/check.h"

namespace tessera {

GpuTime::GpuTime(const AdmissionRules& rules, std::unique_ptr<Policy> policy) : rules_(rules), policy_(std::move(policy)) {
  CHECK(policy_ != nullptr);
}

const VgpuState& GpuTime::state(VgpuId vgpu) const {
  CHECK(vgpu < states_.size() && states_[vgpu].has_value());
  return *states_[vgpu];
}

VgpuState& GpuTime::at(VgpuId vgpu) { return const_cast<VgpuState&>(state(vgpu)); }

GpuTime::Session& GpuTime::SessionAt(SessionId session) {
  CHECK(session < sessions_.size() && sessions_[session].present);
  return sessions_[session];
}

// What is there.

Result<VgpuId> GpuTime::AddVgpu(const VgpuSpec& spec, int64_t now_ns) {
  std::vector<VgpuSpec> present;
  for (const VgpuId vgpu : order_) present.push_back(state(vgpu).spec);
  RETURN_IF_ERROR(AdmitVgpu(present, spec, rules_));
  const auto free = std::find(states_.begin(), states_.end(), std::nullopt);
  const auto vgpu = static_cast<VgpuId>(free - states_.begin());
  if (free == states_.end()) states_.emplace_back();
  states_[vgpu].emplace(spec, now_ns);
  order_.push_back(vgpu);
  ledger_.Open(vgpu);
  return vgpu;
}

Status GpuTime::ChangeSpec(VgpuId vgpu, const VgpuSpec& spec) {
  std::vector<VgpuSpec> others;
  for (const VgpuId other : order_) {
    if (other != vgpu) others.push_back(state(other).spec);
  }
  RETURN_IF_ERROR(AdmitVgpu(others, spec, rules_));
  at(vgpu).spec = spec;
  at(vgpu).bucket.SetLimit(spec.limit);
  return Status::Ok();
}

void GpuTime::RemoveVgpu(VgpuId vgpu) {
  CHECK(state(vgpu).sessions == 0);
  if (holder_ == vgpu) EndToken();
  if (last_holder_ == vgpu) last_holder_.reset();
  ForgetVgpuOfSet(vgpu);
  ledger_.Close(vgpu);
  policy_->Forget(vgpu);
  std::erase(order_, vgpu);
  std::erase(changed_, vgpu);
  states_[vgpu].reset();
}

SessionId GpuTime::SessionCame(VgpuId vgpu, int64_t now_ns) {
  ++at(vgpu).sessions;
  const auto free = std::find_if(sessions_.begin(), sessions_.end(), [](const Session& each) { return !each.present; });
  const auto session = static_cast<SessionId>(free - sessions_.begin());
  if (free == sessions_.end()) sessions_.emplace_back();
  sessions_[session] = {.vgpu = vgpu, .present = true};
  return session;
}

void GpuTime::SessionLeft(SessionId session, int64_t now_ns) {
  if (SessionAt(session).wants) SetWants(session, false, now_ns);
  BusyEnded(session, now_ns);
  SetTogether(session, false);
  --at(SessionAt(session).vgpu).sessions;
  SessionAt(session) = Session();
}

// What workers report.

void GpuTime::SetWants(SessionId session, bool wants, int64_t at_ns) {
  if (mode_ != GpuMode::kMetered) return Worked(session, at_ns);
  Session& from = SessionAt(session);
  if (from.wants == wants) return;
  VgpuState& vgpu = at(from.vgpu);
  const bool was_active = vgpu.active();
  from.wants = wants;
  vgpu.wanting += wants ? 1 : -1;
  vgpu.Changed(was_active, at_ns, ledger_.BilledNs(from.vgpu));
}

void GpuTime::BusyBegan(SessionId session, int64_t at_ns) {
  if (mode_ != GpuMode::kMetered) return Worked(session, at_ns);
  Session& from = SessionAt(session);
  if (from.busy) return;
  VgpuState& vgpu = at(from.vgpu);
  const bool was_active = vgpu.active();
  from.busy = true;
  from.busy_since_ns = at_ns;
  if (!vgpu.busy()) vgpu.busy_since_ns = at_ns;
  ++vgpu.working;
  ledger_.BusyBegan(from.vgpu, at_ns);
  vgpu.Changed(was_active, at_ns, ledger_.BilledNs(from.vgpu));
}

void GpuTime::BusyEnded(SessionId session, int64_t at_ns) {
  Session& from = SessionAt(session);
  if (!from.busy) return;
  at_ns = std::max(at_ns, from.busy_since_ns);
  VgpuState& vgpu = at(from.vgpu);
  const bool was_active = vgpu.active();
  from.busy = false;
  from.overran_ns = 0;
  from.queued_until_ns = 0;
  --vgpu.working;
  // Within its grace it has the token still.
  if (holder_ == from.vgpu && !vgpu.busy()) vgpu.WorkedUntil(at_ns, token_until_ns_);
  ledger_.BusyEnded(from.vgpu, at_ns);
  vgpu.Changed(was_active, at_ns, ledger_.BilledNs(from.vgpu));
}

void GpuTime::SetQueued(SessionId session, int64_t estimate_ns, int64_t at_ns) {
  SessionAt(session).queued_until_ns = at_ns + std::clamp<int64_t>(estimate_ns, 0, kQueuedMaxNs);
}

void GpuTime::Worked(SessionId session, int64_t at_ns) {
  int64_t& worked_at_ns = at(SessionAt(session).vgpu).worked_at_ns;
  worked_at_ns = std::max(worked_at_ns, at_ns);
}

}  // namespace tessera
