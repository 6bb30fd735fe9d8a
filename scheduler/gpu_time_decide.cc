// What to do: time passes, the mode follows, somebody has the token, workers are told.
#include <algorithm>

#include "protocol/base/check.h"
#include "scheduler/gpu_time.h"

namespace tessera {

GpuTime::Decision GpuTime::Decide(int64_t now_ns) {
  const int64_t passed_ns = now_ns - now_ns_;
  CHECK(passed_ns >= 0);
  now_ns_ = now_ns;
  ledger_.Advance(now_ns);
  CountPassedTime(passed_ns);
  CountOverrun(passed_ns);
  next_.reset();
  if (!IsHeld()) offer_.reset();
  int64_t ask_again_ns = SetMode();
  if (mode_ == GpuMode::kMetered) {
    Look();
    policy_->Advance(gpu_);
    ask_again_ns = std::min({ask_again_ns, DecideMetered(), LimitedUntilNs(), NextStuckNs()});
    others_waited_ = OthersWait();
  } else {
    if (holder_) EndToken();
    ForgetSets();
  }
  Tell();
  return {changed_, ask_again_ns == kNever ? kNever : std::max(ask_again_ns, now_ns + 1)};
}

// What the time since the last decision was for each, by what was decided then.
void GpuTime::CountPassedTime(int64_t passed_ns) {
  if (IsHeld()) ChargeHeldTime(passed_ns);
  for (const VgpuView& view : views_) {
    if (!states_[view.id]) continue;
    VgpuState& vgpu = *states_[view.id];
    const bool held = view.id == gpu_.holder;
    if (vgpu.wants() && view.active && !held && !vgpu.busy()) vgpu.waited_ns += passed_ns;
    if (held && others_waited_) {
      vgpu.idled_ns += std::max<int64_t>(0, passed_ns - (ledger_.BusyNs(view.id) - holder_busy_ns_));
    }
    const bool waits = view.eligible && !held;
    vgpu.bucket.Advance(now_ns_, ledger_.BilledNs(view.id), waits ? std::max<int64_t>(0, now_ns_ - vgpu.waiting_since_ns) : 0);
  }
}

// A token that ended within this time counts as ended at its end.
void GpuTime::CountOverrun(int64_t passed_ns) {
  if (std::ranges::count_if(views_, &VgpuView::active) < 2) return;
  for (Session& session : sessions_) {
    if (!session.busy) continue;
    const bool holds = session.vgpu == holder_;
    session.overran_ns += holds ? std::clamp<int64_t>(now_ns_ - token_until_ns_, 0, passed_ns) : passed_ns;
  }
}

int64_t GpuTime::SetMode() {
  uint32_t with_sessions = 0, work = 0;
  bool limited = false;
  int64_t first_ns = kNever;  // when the first of those that work rests
  for (const VgpuId id : order_) {
    VgpuState& vgpu = at(id);
    if (vgpu.active()) vgpu.worked_at_ns = now_ns_;
    if (vgpu.sessions == 0) continue;
    ++with_sessions;
    limited |= vgpu.spec.limit < 1;
    if (vgpu.worked_at_ns < 0 || now_ns_ - vgpu.worked_at_ns > kRestNs) continue;
    ++work;
    if (!vgpu.active()) first_ns = std::min(first_ns, vgpu.worked_at_ns + kRestNs + 1);
  }
  const bool always = with_sessions > 0 && (limited || policy_->MetersAlways());
  const GpuMode mode = always || work >= 2 ? GpuMode::kMetered : with_sessions >= 2 ? GpuMode::kArmed : GpuMode::kFree;
  if (mode_ == GpuMode::kMetered && mode != GpuMode::kMetered) ForgetReports();
  mode_ = mode;
  return mode_ == GpuMode::kMetered && !always ? first_ns : kNever;
}

// Nobody will tell when it ends.
void GpuTime::ForgetReports() {
  for (SessionId session = 0; session < sessions_.size(); ++session) {
    if (!sessions_[session].present) continue;
    SetWants(session, false, now_ns_);
    BusyEnded(session, now_ns_);
  }
  views_.clear();
}

void GpuTime::Look() {
  views_.clear();
  queued_ns_.assign(states_.size(), 0);
  for (const Session& session : sessions_) {
    if (session.present) queued_ns_[session.vgpu] += std::max<int64_t>(0, session.queued_until_ns - now_ns_);
  }
  for (const VgpuId id : order_) {
    const VgpuState& vgpu = state(id);
    const bool holds = holder_ == id;
    const int64_t quantum_ns = vgpu.burst.quantum_ns();
    const bool asks = vgpu.wants() || (holds && vgpu.busy());
    const bool here = vgpu.active() || (holds && PausesShortly());
    const bool waits_elsewhere = !here && WaitsElsewhere(id);
    const bool allowed = vgpu.bucket.AllowedNs(quantum_ns, ledger_.UnusedNs(id)) > 0;
    views_.push_back({.id = id,
                      .spec = &vgpu.spec,
                      .sessions = vgpu.sessions,
                      .active = here || waits_elsewhere,
                      .waits_elsewhere = waits_elsewhere,
                      .eligible = asks && allowed,
                      .waiting_since_ns = vgpu.waiting_since_ns,
                      .rested_since_ns = vgpu.rested_since_ns,
                      .charged_ns = ledger_.BilledNs(id) + vgpu.idled_ns,
                      .waited_ns = vgpu.waited_ns,
                      .committed_ns = std::max(ledger_.UnusedNs(id), queued_ns_[id]),
                      .quantum_ns = quantum_ns,
                      .overran_ns = vgpu.overran_ns});
    if (holds) holder_busy_ns_ = ledger_.BusyNs(id);
  }
  gpu_ = {.now_ns = now_ns_,
          .token_begin_ns = now_ns_,
          .vgpus = views_,
          .ledger = &ledger_,
          .holder = holder_,
          .has_sets = together_ > 0};
}

// Finds whose workers are to be told something new.
void GpuTime::Tell() {
  changed_.clear();
  for (const VgpuId id : order_) {
    GateState gate = {.mode = mode_};
    if (mode_ == GpuMode::kMetered) {
      gate.open_until_ns = holder_ == id ? token_until_ns_ : 0;
      gate.next = next_ == id;
    }
    if (gate == state(id).gate) continue;
    at(id).gate = gate;
    changed_.push_back(id);
  }
}

}  // namespace tessera
