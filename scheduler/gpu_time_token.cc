// Metered: who has the token, until when, and who is next.
#include <algorithm>

#include "protocol/base/check.h"
#include "scheduler/gpu_time.h"

namespace tessera {

// When to be asked again.
int64_t GpuTime::DecideMetered() {
  if (const std::optional<VgpuId> arrived = ProtectedArrival()) {
    if (holder_) EndToken();
    return Give(*arrived, now_ns_, state(*arrived).burst.quantum_ns());
  }
  if (granted_) TakeGrant();
  if (IsHeld()) return GoOnHolding();
  return holder_ ? DecideHolder() : GiveNext(AskPolicy());
}

int64_t GpuTime::DecideHolder() {
  const VgpuState& holder = state(*holder_);
  if (holder.active() || holder_busy_ns_ > begin_busy_ns_) begin_by_ns_ = 0;
  if (IsOpen() && !holder.active()) {
    if (!OthersWait()) return token_until_ns_;
    if (WaitsToBegin()) return std::min(begin_by_ns_, token_until_ns_);
    if (begin_by_ns_ > 0) held_since_ns_ = begin_by_ns_ - kAssembleNs;  // as long as that, whoever is next
    if (PausesShortly()) return std::min(holder.rested_since_ns + kShortRestNs, token_until_ns_);
    EndToken();
    return GiveNext(AskPolicy());
  }
  if (now_ns_ < RenewAtNs()) return RenewAtNs();
  const Choice next = AskPolicy();
  const bool goes_on = next.vgpu == holder_;
  if (next.vgpu && NeedsSet(*next.vgpu)) {
    offer_ = {.vgpu = *next.vgpu, .begin_ns = std::max(now_ns_, token_until_ns_), .length_ns = next.length_ns};
  } else if (goes_on) {
    return Give(*holder_, std::max(now_ns_, token_until_ns_), next.length_ns);
  }
  if (!goes_on) next_ = next.vgpu;
  if (IsOpen()) return token_until_ns_;
  if (!goes_on && holder.busy() && now_ns_ < GraceEndNs()) {
    return std::min(GraceEndNs(), next.ask_again_ns);
  }
  next_.reset();
  EndToken();
  return GiveNext(next);
}

// Of the protected that have come to want the token since they rested: the one that waits longest.
std::optional<VgpuId> GpuTime::ProtectedArrival() const {
  const std::optional<VgpuId> having = IsHeld() ? offer_->vgpu : holder_;
  if (!having || state(*having).spec.priority == Priority::kProtected) return std::nullopt;
  std::optional<VgpuId> first;
  for (const VgpuView& view : views_) {
    if (view.spec->priority != Priority::kProtected || !view.eligible || !state(view.id).arrived) continue;
    if (first && state(*first).waiting_since_ns <= view.waiting_since_ns) continue;
    if (policy_->MayPreempt(view)) first = view.id;
  }
  return first;
}

Choice GpuTime::AskPolicy() {
  if (const std::optional<VgpuId> stuck = Stuck()) return {stuck, kStuckTokenNs};
  gpu_.token_begin_ns = holder_ ? std::max(now_ns_, token_until_ns_) : now_ns_;
  if (appointment_) return AskBeforeAppointment();
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
  if (!choice.vgpu) {
    held_since_ns_ = -1;
    return choice.ask_again_ns;
  }
  if (choice.vgpu != Stuck()) {
    if (NeedsSet(*choice.vgpu)) return HoldFor(choice);
    return Give(*choice.vgpu, now_ns_, choice.length_ns);
  }
  const int64_t again_ns = Hold(*choice.vgpu, now_ns_, choice.length_ns);
  grace_end_ns_ = token_until_ns_;  // its work is not waited for: it may wait itself
  return again_ns;
}

int64_t GpuTime::Give(VgpuId id, int64_t begin_ns, int64_t length_ns) {
  VgpuState& vgpu = at(id);
  if (holder_ == id && vgpu.active()) vgpu.burst.TokenUsedUp(ledger_.BilledNs(id));
  const int64_t allowed_ns = vgpu.bucket.AllowedNs(vgpu.burst.quantum_ns(), ledger_.UnusedNs(id));
  return Hold(id, begin_ns, std::min(length_ns, std::max(allowed_ns, kQuantumMinNs)));
}

int64_t GpuTime::Hold(VgpuId id, int64_t begin_ns, int64_t length_ns) {
  VgpuState& vgpu = at(id);
  CountGrant(id);
  token_length_ns_ = length_ns;
  token_until_ns_ = begin_ns + token_length_ns_;
  grace_end_ns_ = 0;
  holder_ = gpu_.holder = id;
  holder_busy_ns_ = ledger_.BusyNs(id);
  vgpu.arrived = false;
  vgpu.overran_since_ns = -1;
  ledger_.SetToken(id, token_until_ns_);
  offer_.reset();
  if (appointment_ && appointment_->vgpu == id && appointment_->at_ns < token_until_ns_) appointment_.reset();
  held_since_ns_ = -1;
  begin_by_ns_ = 0;
  return RenewAtNs();
}

void GpuTime::CountGrant(VgpuId id) {
  VgpuState& vgpu = at(id);
  ++vgpu.grants;
  const std::optional<VgpuId> last = holder_ ? holder_ : last_holder_;
  const int64_t ended_ns = holder_ ? std::min(now_ns_, token_until_ns_) : last_end_ns_;
  if (last && *last != id) hand_overs_.Add(std::max<int64_t>(0, now_ns_ - std::max(ended_ns, vgpu.waiting_since_ns)));
  last_holder_ = id;
}

void GpuTime::EndToken() {
  VgpuState& vgpu = at(*holder_);
  last_end_ns_ = std::min(now_ns_, token_until_ns_);
  vgpu.TokenEnded(std::min(now_ns_, token_until_ns_), ledger_.BilledNs(*holder_));
  ledger_.SetToken(*holder_, 0);
  token_until_ns_ = 0;
  if (begin_by_ns_ > 0) ++vgpu.sets_failed;
  begin_by_ns_ = 0;
  holder_.reset();
  gpu_.holder.reset();
}

int64_t GpuTime::RenewAtNs() const { return token_until_ns_ - std::min(kAheadMaxNs, token_length_ns_ / 4); }

// Until when a holder whose token is over may go on alone: what its sessions are believed to have queued then, one after another.
int64_t GpuTime::GraceEndNs() {
  if (grace_end_ns_ == 0) {
    int64_t queued_ns = 0;
    for (const Session& session : sessions_) {
      if (session.present && session.vgpu == holder_)
        queued_ns += std::max<int64_t>(0, session.queued_until_ns - token_until_ns_);
    }
    grace_end_ns_ = token_until_ns_ + std::clamp(queued_ns, kGraceMinNs, kGraceMaxNs);
  }
  return grace_end_ns_;
}

int64_t GpuTime::HandOverNs() const {
  if (!holder_ || !next_) return kNever;
  return std::max(token_until_ns_, state(*holder_).busy() ? now_ns_ + queued_ns_[*holder_] : 0);
}

// Whether anybody but the holder is kept from running by it alone.
bool GpuTime::OthersWait() const {
  const std::optional<VgpuId> having = IsHeld() ? offer_->vgpu : holder_;
  return std::any_of(views_.begin(), views_.end(),
                     [&](const VgpuView& view) { return view.id != having && view.eligible && state(view.id).wants(); });
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

// When one that is busy and wants the token is to get it, as it may wait for itself, or to be asked about again; kNever: it does
// not.
int64_t GpuTime::StuckAtNs(VgpuId id) const {
  const VgpuState& vgpu = state(id);
  if (holder_ == id || !vgpu.wants() || !vgpu.busy()) return kNever;
  const int64_t since_ns = std::max(vgpu.waiting_since_ns, vgpu.busy_since_ns);
  const double per_limit = std::min(1 / vgpu.spec.limit, 1e6);
  const auto limited_ns = static_cast<int64_t>(static_cast<double>(kStuckTokenNs) * per_limit);
  const int64_t least_ns = since_ns + std::max(kStuckNs, limited_ns);
  if (now_ns_ < least_ns) return least_ns;  // as a rule: sessions are many
  int64_t queued_ns = 0;
  for (const Session& session : sessions_) {
    if (session.present && session.vgpu == id) queued_ns += std::max<int64_t>(0, session.queued_until_ns - since_ns);
  }
  const double factor = std::max<double>(kStuckQueuedFactor, per_limit - 1);
  return least_ns + static_cast<int64_t>(factor * static_cast<double>(queued_ns));
}

// Of those that are to get it, the one that should have had it first.
std::optional<VgpuId> GpuTime::Stuck() const {
  std::optional<VgpuId> first;
  int64_t first_ns = now_ns_ + 1;
  for (const VgpuId id : order_) {
    const int64_t at_ns = StuckAtNs(id);
    if (at_ns >= first_ns) continue;
    first = id;
    first_ns = at_ns;
  }
  return first;
}

// When the next one is to get it: who is to get it already waits for the end of a token.
int64_t GpuTime::NextStuckNs() const {
  int64_t next_ns = kNever;
  for (const VgpuId id : order_) {
    if (const int64_t at_ns = StuckAtNs(id); at_ns > now_ns_) next_ns = std::min(next_ns, at_ns);
  }
  return next_ns;
}

// Whether the holder has a rest in which its token is better left with it.
bool GpuTime::PausesShortly() const {
  const VgpuState& holder = state(*holder_);
  return IsOpen() && !holder.active() && holder.burst.RestsShortly() && now_ns_ < holder.rested_since_ns + kShortRestNs;
}

}  // namespace tessera
