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
  from.queued_ns = 0;
  --vgpu.working;
  ledger_.BusyEnded(from.vgpu, at_ns);
  vgpu.Changed(was_active, at_ns, ledger_.BilledNs(from.vgpu));
}

void GpuTime::SetQueued(SessionId session, int64_t estimate_ns) {
  SessionAt(session).queued_ns = std::max<int64_t>(0, estimate_ns);
}

void GpuTime::Worked(SessionId session, int64_t at_ns) {
  int64_t& worked_at_ns = at(SessionAt(session).vgpu).worked_at_ns;
  worked_at_ns = std::max(worked_at_ns, at_ns);
}

// What to do.

GpuTime::Decision GpuTime::Decide(int64_t now_ns) {
  const int64_t passed_ns = now_ns - now_ns_;
  CHECK(passed_ns >= 0);
  now_ns_ = now_ns;
  ledger_.Advance(now_ns);
  CountPassedTime(passed_ns);
  next_.reset();
  int64_t ask_again_ns = SetMode();
  if (mode_ == GpuMode::kMetered) {
    Look();
    policy_->Advance(gpu_);
    ask_again_ns = std::min({ask_again_ns, DecideMetered(), LimitedUntilNs()});
    others_waited_ = OthersWait();
  } else if (holder_) {
    EndToken();
  }
  Tell();
  return {changed_, ask_again_ns == kNever ? kNever : std::max(ask_again_ns, now_ns + 1)};
}

// What the time since the last decision was for each, by what was decided then.
void GpuTime::CountPassedTime(int64_t passed_ns) {
  for (const VgpuView& view : views_) {
    if (!states_[view.id]) continue;
    VgpuState& vgpu = *states_[view.id];
    const bool held = view.id == gpu_.holder;
    if (vgpu.wants() && view.active && !held && !vgpu.busy()) vgpu.waited_ns += passed_ns;
    if (held && others_waited_) {
      vgpu.idled_ns += std::max<int64_t>(0, passed_ns - (ledger_.BusyNs(view.id) - holder_busy_ns_));
    }
    vgpu.bucket.Advance(now_ns_, ledger_.BilledNs(view.id), view.eligible && !held);
  }
}

int64_t GpuTime::SetMode() {
  uint32_t with_sessions = 0, work = 0;
  bool limited = false;
  int64_t first_ns = kNever, second_ns = kNever;  // when the last two that work rest
  for (const VgpuId id : order_) {
    VgpuState& vgpu = at(id);
    if (vgpu.active()) vgpu.worked_at_ns = now_ns_;
    if (vgpu.sessions == 0) continue;
    ++with_sessions;
    limited |= vgpu.spec.limit < 1;
    if (vgpu.worked_at_ns < 0 || now_ns_ - vgpu.worked_at_ns > kRestNs) continue;
    ++work;
    const int64_t rests_ns = vgpu.worked_at_ns + kRestNs + 1;
    if (vgpu.active()) continue;
    second_ns = std::min(second_ns, std::max(first_ns, rests_ns));
    first_ns = std::min(first_ns, rests_ns);
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
  for (const VgpuId id : order_) {
    const VgpuState& vgpu = state(id);
    const bool holds = holder_ == id;
    const int64_t quantum_ns = vgpu.burst.quantum_ns();
    const bool asks = vgpu.wants() || (holds && vgpu.busy());
    const bool allowed = vgpu.bucket.AllowedNs(quantum_ns, ledger_.UnusedNs(id)) > 0;
    views_.push_back({.id = id,
                      .spec = &vgpu.spec,
                      .sessions = vgpu.sessions,
                      .active = vgpu.active() || (holds && PausesShortly()),
                      .eligible = asks && allowed,
                      .waiting_since_ns = vgpu.waiting_since_ns,
                      .rested_since_ns = vgpu.rested_since_ns,
                      .charged_ns = ledger_.BilledNs(id) + vgpu.idled_ns,
                      .waited_ns = vgpu.waited_ns,
                      .quantum_ns = quantum_ns});
    if (holds) holder_busy_ns_ = ledger_.BusyNs(id);
  }
  gpu_ = {.now_ns = now_ns_, .token_begin_ns = now_ns_, .vgpus = views_, .ledger = &ledger_, .holder = holder_};
}

// Whether anybody but the holder is kept from running by it alone.
bool GpuTime::OthersWait() const {
  return std::any_of(views_.begin(), views_.end(),
                     [&](const VgpuView& view) { return view.id != holder_ && view.eligible && state(view.id).wants(); });
}

// When one that wants the token and is at its limit is eligible again.
int64_t GpuTime::LimitedUntilNs() const {
  int64_t until_ns = kNever;
  for (const VgpuId id : order_) {
    const VgpuState& vgpu = state(id);
    if (!vgpu.wants() || holder_ == id) continue;
    const int64_t quantum_ns = vgpu.burst.quantum_ns();
    if (vgpu.bucket.AllowedNs(quantum_ns) == 0) until_ns = std::min(until_ns, vgpu.bucket.AllowedAtNs(quantum_ns));
  }
  return until_ns;
}

// Whether the holder has a rest in which its token is better left with it.
bool GpuTime::PausesShortly() const {
  const VgpuState& holder = state(*holder_);
  return IsOpen() && !holder.active() && holder.burst.RestsShortly() && now_ns_ < holder.rested_since_ns + kShortRestNs;
}

// When to be asked again.
int64_t GpuTime::DecideMetered() {
  if (const std::optional<VgpuId> arrived = ProtectedArrival()) {
    EndToken();
    return Give(*arrived, now_ns_, state(*arrived).burst.quantum_ns());
  }
  return holder_ ? DecideHolder() : GiveNext(AskPolicy());
}

int64_t GpuTime::DecideHolder() {
  const VgpuState& holder = state(*holder_);
  if (IsOpen() && !holder.active()) {
    if (!OthersWait()) return token_until_ns_;
    if (PausesShortly()) return std::min(holder.rested_since_ns + kShortRestNs, token_until_ns_);
    EndToken();
    return GiveNext(AskPolicy());
  }
  if (now_ns_ < RenewAtNs()) return RenewAtNs();
  const Choice next = AskPolicy();
  if (next.vgpu == holder_) return Give(*holder_, std::max(now_ns_, token_until_ns_), next.length_ns);
  if (IsOpen()) {
    next_ = next.vgpu;
    return token_until_ns_;
  }
  if (holder.busy() && now_ns_ < GraceEndNs()) {
    next_ = next.vgpu;
    return std::min(GraceEndNs(), next.ask_again_ns);
  }
  EndToken();
  return GiveNext(next);
}

// Of the protected that have come to want the token since they rested: the one that waits longest.
std::optional<VgpuId> GpuTime::ProtectedArrival() const {
  if (!holder_ || state(*holder_).spec.priority == Priority::kProtected) return std::nullopt;
  std::optional<VgpuId> first;
  for (const VgpuView& view : views_) {
    if (view.spec->priority != Priority::kProtected || !view.eligible || !state(view.id).arrived) continue;
    if (first && state(*first).waiting_since_ns <= view.waiting_since_ns) continue;
    if (policy_->MayPreempt(view)) first = view.id;
  }
  return first;
}

Choice GpuTime::AskPolicy() {
  gpu_.token_begin_ns = holder_ ? std::max(now_ns_, token_until_ns_) : now_ns_;
  const Choice choice = HolderGoesFirst() ? Choice{holder_, state(*holder_).burst.quantum_ns()} : policy_->Next(gpu_);
  CHECK(!choice.vgpu || choice.length_ns > 0);
  return choice;
}

// What a protected vGPU took on arrival is not taken from it while it could take it again.
bool GpuTime::HolderGoesFirst() const {
  if (!holder_ || state(*holder_).spec.priority != Priority::kProtected) return false;
  bool goes = false;
  for (const VgpuView& view : views_) {
    if (view.spec->priority != Priority::kProtected || !view.eligible) continue;
    if (view.id != holder_) return false;
    goes = policy_->MayPreempt(view);
  }
  return goes;
}

int64_t GpuTime::GiveNext(const Choice& choice) {
  return choice.vgpu ? Give(*choice.vgpu, now_ns_, choice.length_ns) : choice.ask_again_ns;
}

int64_t GpuTime::Give(VgpuId id, int64_t begin_ns, int64_t length_ns) {
  VgpuState& vgpu = at(id);
  if (holder_ == id && vgpu.active()) vgpu.burst.TokenUsedUp(ledger_.BilledNs(id));
  const int64_t allowed_ns = vgpu.bucket.AllowedNs(vgpu.burst.quantum_ns(), ledger_.UnusedNs(id));
  token_length_ns_ = std::min(length_ns, std::max(allowed_ns, kQuantumMinNs));
  token_until_ns_ = begin_ns + token_length_ns_;
  grace_end_ns_ = 0;
  holder_ = gpu_.holder = id;
  holder_busy_ns_ = ledger_.BusyNs(id);
  vgpu.arrived = false;
  vgpu.overran_since_ns = -1;
  ledger_.SetToken(id, token_until_ns_);
  return RenewAtNs();
}

void GpuTime::EndToken() {
  VgpuState& vgpu = at(*holder_);
  vgpu.TokenEnded(std::min(now_ns_, token_until_ns_), ledger_.BilledNs(*holder_));
  ledger_.SetToken(*holder_, 0);
  token_until_ns_ = 0;
  holder_.reset();
  gpu_.holder.reset();
}

int64_t GpuTime::RenewAtNs() const { return token_until_ns_ - std::min(kAheadMaxNs, token_length_ns_ / 4); }

// Until when a holder whose token is over may go on alone.
int64_t GpuTime::GraceEndNs() {
  if (grace_end_ns_ == 0) {
    int64_t queued_ns = 0;
    for (const Session& session : sessions_) {
      if (session.present && session.vgpu == holder_) queued_ns += session.queued_ns;
    }
    grace_end_ns_ = token_until_ns_ + std::clamp(queued_ns, kGraceMinNs, kGraceMaxNs);
  }
  return grace_end_ns_;
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
