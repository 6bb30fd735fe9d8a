// Tokens that are given together with those of other GPUs.
#include <algorithm>
#include <utility>

#include "scheduler/gpu_time.h"

namespace tessera {

// What is told.

void GpuTime::SetTogether(SessionId session, bool together) {
  if (SessionAt(session).together == together) return;
  SessionAt(session).together = together;
  together_ += together ? 1 : -1;
  if (!together) SessionAt(session).waits_elsewhere = false;
}

void GpuTime::SetWaitsElsewhere(SessionId session, bool waits) {
  if (SessionAt(session).together) SessionAt(session).waits_elsewhere = waits;
}

void GpuTime::Appoint(VgpuId vgpu, int64_t at_ns) {
  appointment_ = {vgpu, at_ns};
  // It is not worth to hold the GPU for so long.
  if (IsHeld() && (offer_->vgpu != vgpu || at_ns > offer_->until_ns)) offer_.reset();
}

void GpuTime::Grant(VgpuId vgpu, int64_t until_ns) { granted_ = {vgpu, until_ns}; }

void GpuTime::ForgetVgpuOfSet(VgpuId vgpu) {
  if (offer_ && offer_->vgpu == vgpu) offer_.reset();
  if (appointment_ && appointment_->vgpu == vgpu) appointment_.reset();
  if (granted_ && granted_->vgpu == vgpu) granted_.reset();
}

void GpuTime::ForgetSets() {
  offer_.reset();
  appointment_.reset();
  granted_.reset();
  held_since_ns_ = -1;
}

// What is decided.

bool GpuTime::InSet(VgpuId vgpu) const {
  if (together_ == 0) return false;
  return std::ranges::any_of(sessions_, [&](const Session& each) { return each.together && each.vgpu == vgpu; });
}

bool GpuTime::NeedsSet(VgpuId vgpu) const {
  if (together_ == 0) return false;
  if (appointment_ && appointment_->vgpu == vgpu && appointment_->at_ns < gpu_.token_begin_ns + kQuantumMinNs) return true;
  const auto needs = [&](const Session& each) { return each.together && each.vgpu == vgpu && (each.wants || each.busy); };
  return std::ranges::any_of(sessions_, needs);
}

bool GpuTime::WaitsElsewhere(VgpuId vgpu) const {
  if (together_ == 0) return false;
  return std::ranges::any_of(sessions_, [&](const Session& each) { return each.waits_elsewhere && each.vgpu == vgpu; });
}

bool GpuTime::Waits(SessionId session) const {
  const Session& its = sessions_[session];
  return its.wants && !(holder_ == its.vgpu && IsOpen());
}

const VgpuView* GpuTime::ViewOf(VgpuId vgpu) const {
  const auto found = std::ranges::find(views_, vgpu, &VgpuView::id);
  return found == views_.end() ? nullptr : &*found;
}

bool GpuTime::MayJoin(const VgpuView& view) const {
  const bool allowed = state(view.id).bucket.AllowedNs(view.quantum_ns, ledger_.UnusedNs(view.id)) > 0;
  return allowed && policy_->MayJoin(view);
}

int64_t GpuTime::JoinAtNs(VgpuId vgpu, int64_t now_ns) const {
  const VgpuView* const view = mode_ == GpuMode::kMetered ? ViewOf(vgpu) : nullptr;
  const bool offered = offer_ && offer_->vgpu == vgpu;
  if (view == nullptr || (!offered && !MayJoin(*view))) return kNever;
  if (holder_ == vgpu) return now_ns;
  if (HolderGoesFirst() || (appointment_ && appointment_->vgpu != vgpu)) return kNever;
  if (!holder_) return now_ns;
  return std::max({token_until_ns_, state(*holder_).busy() ? now_ns_ + queued_ns_[*holder_] : 0, now_ns + 1});
}

int64_t GpuTime::TokenLengthNs(VgpuId vgpu) const {
  const VgpuState& its = state(vgpu);
  const int64_t quantum_ns = its.burst.quantum_ns();
  return std::min(quantum_ns, std::max(its.bucket.AllowedNs(quantum_ns, ledger_.UnusedNs(vgpu)), kQuantumMinNs));
}

// Who has the token until the appointed one does.
Choice GpuTime::AskBeforeAppointment() {
  const VgpuId id = appointment_->vgpu;
  const auto view = std::ranges::find(views_, id, &VgpuView::id);
  if (view == views_.end() || !InSet(id) || !MayJoin(*view)) {
    appointment_.reset();
    return AskPolicy();
  }
  if (HolderGoesFirst()) return {holder_, state(*holder_).burst.quantum_ns()};
  const int64_t left_ns = appointment_->at_ns - gpu_.token_begin_ns;
  const Choice appointed = {id, TokenLengthNs(id)};
  if (left_ns <= 0) return appointed;
  const bool eligible = std::exchange(view->eligible, false);
  Choice other = policy_->Next(gpu_);
  view->eligible = eligible;
  if (!other.vgpu && !eligible) return {std::nullopt, 0, std::min(other.ask_again_ns, appointment_->at_ns)};
  if (left_ns < kQuantumMinNs) return appointed;
  // It may have it by itself until then where nobody else wants it.
  if (!other.vgpu) other = appointed;
  other.length_ns = std::min(other.length_ns, left_ns);
  return other;
}

// Nobody has the token until the others of the set have come, or for as long as that may take.
int64_t GpuTime::HoldFor(const Choice& choice) {
  const VgpuId id = *choice.vgpu;
  if (held_since_ns_ < 0) held_since_ns_ = now_ns_;
  const int64_t until_ns = held_since_ns_ + kAssembleNs - kBeginNs;
  if (now_ns_ < until_ns) {
    offer_ = {id, now_ns_, choice.length_ns, until_ns};
    next_ = id;
    held_gpu_busy_ns_ = ledger_.GpuBusyNs();
    return until_ns;
  }
  if (offer_) ++at(id).sets_failed;  // else it was held for another one
  ForgetVgpuOfSet(id);
  return state(id).wants() ? Give(id, now_ns_, choice.length_ns) : GiveNext(AskPolicy());
}

int64_t GpuTime::GoOnHolding() {
  const VgpuView* const view = ViewOf(offer_->vgpu);
  const bool is_next = view != nullptr && (view->eligible || appointed() == view->id);
  if (is_next && NeedsSet(view->id)) return HoldFor({view->id, offer_->length_ns});
  offer_.reset();
  return GiveNext(AskPolicy());
}

void GpuTime::TakeGrant() {
  const auto [id, until_ns] = *std::exchange(granted_, std::nullopt);
  if (until_ns <= now_ns_) return ForgetVgpuOfSet(id);
  if (holder_ && holder_ != id) return;
  const int64_t begin_ns = until_ns > token_until_ns_ ? std::max(now_ns_, token_until_ns_) : now_ns_;
  const bool held = holder_ == id;
  const int64_t begin_by_ns = held ? begin_by_ns_ : now_ns_ + kBeginNs;
  Give(id, begin_ns, until_ns - begin_ns);
  begin_by_ns_ = begin_by_ns;
  if (!held) begin_busy_ns_ = holder_busy_ns_;
}

// The time since the last decision, as what was held then.
void GpuTime::ChargeHeldTime(int64_t passed_ns) {
  if (!others_waited_) return;
  const int64_t busy_ns = ledger_.GpuBusyNs() - held_gpu_busy_ns_;
  at(offer_->vgpu).idled_ns += std::max<int64_t>(0, passed_ns - busy_ns);
}

}  // namespace tessera
