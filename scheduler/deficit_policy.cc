#include "scheduler/deficit_policy.h"

#include <algorithm>

#include "scheduler/admission.h"
#include "scheduler/burst_estimate.h"

namespace tessera {

void RequestFloors(std::span<const VgpuView* const> active, std::span<double> floors) {
  const auto without = [](const VgpuView* each) { return each->spec->request <= 0; };
  const auto count = std::count_if(active.begin(), active.end(), without);
  for (size_t i = 0; i < active.size(); ++i) {
    const VgpuSpec& spec = *active[i]->spec;
    floors[i] = without(active[i]) ? std::min(kShareWithoutRequest / static_cast<double>(count), spec.limit) : spec.request;
  }
}

void DeficitPolicy::Advance(const GpuView& gpu) {
  Charge(gpu);
  active_.clear();
  for (const VgpuView& view : gpu.vgpus) {
    State& state = states_[view.id];
    state.active = view.active;
    if (view.active) active_.push_back(&view);
  }
  shares_.resize(active_.size());
  Share(gpu, active_, shares_);
  for (size_t i = 0; i < active_.size(); ++i) states_[active_[i]->id].share = shares_[i];
  LevelOut(gpu);
  may_be_long_ = MayBeLong(gpu);
  now_ns_ = gpu.now_ns;
}

// Books what was charged since the last time, by the shares that were right then.
void DeficitPolicy::Charge(const GpuView& gpu) {
  double charged_ns = 0, shares = 0;
  for (const VgpuView& view : gpu.vgpus) {
    if (view.id >= states_.size()) states_.resize(view.id + 1);
    State& state = states_[view.id];
    if (!state.known) state = {.charged_ns = view.charged_ns, .known = true};
    const auto own_ns = static_cast<double>(view.charged_ns - state.charged_ns);
    state.charged_ns = view.charged_ns;
    state.credit_ns -= own_ns;
    charged_ns += own_ns;
    if (state.active) shares += state.share;
  }
  const auto passed_ns = static_cast<double>(gpu.now_ns - now_ns_);
  for (const VgpuView& view : gpu.vgpus) {
    State& state = states_[view.id];
    if (state.active) {
      const double grown_ns = charged_ns * state.share / shares;
      const double most_ns = view.waits_elsewhere ? std::max(0.0, kElsewhereMaxNs - state.credit_ns) : grown_ns;
      state.credit_ns += std::min(grown_ns, most_ns);
    } else if (state.credit_ns < 0) {
      state.credit_ns = std::min(0.0, state.credit_ns + state.share * passed_ns);
    } else if (gpu.now_ns - view.rested_since_ns > kRestNs) {
      state.credit_ns = 0;
    }
    if (state.credit_ns < 0) {
      state.credit_ns = std::max(state.credit_ns, -static_cast<double>(gpu.ledger->UsedNs(view.id, Window::kTenSeconds)));
    }
  }
}

// Whether it is among those whose credits add up to 0.
bool DeficitPolicy::Takes(const VgpuView& vgpu, const State& state, int64_t now_ns) const {
  return vgpu.active || (state.share > 0 && now_ns - vgpu.rested_since_ns <= kRestNs);
}

void DeficitPolicy::LevelOut(const GpuView& gpu) {
  double credit_ns = 0, shares = 0;
  for (const VgpuView& view : gpu.vgpus) {
    const State& state = states_[view.id];
    if (!Takes(view, state, gpu.now_ns)) continue;
    credit_ns += state.credit_ns;
    shares += state.share;
  }
  somebody_behind_rests_ = false;
  if (shares <= 0) return;
  for (const VgpuView& view : gpu.vgpus) {
    State& state = states_[view.id];
    if (!Takes(view, state, gpu.now_ns)) continue;
    state.credit_ns -= credit_ns * state.share / shares;
    if (!view.active && state.credit_ns > kQuantumMinNs) somebody_behind_rests_ = true;
  }
}

Choice DeficitPolicy::Next(const GpuView& gpu) {
  const VgpuView* best = nullptr;
  double best_behind = 0;
  for (const VgpuView* view : active_) {
    if (!view->eligible) continue;
    const State& state = states_[view->id];
    // As if what it has been given already were used up.
    const double behind = (state.credit_ns - static_cast<double>(view->committed_ns)) / state.share;
    if (best == nullptr || behind > best_behind || (behind == best_behind && view->waiting_since_ns < best->waiting_since_ns)) {
      best = view;
      best_behind = behind;
    }
  }
  if (best == nullptr) return {};
  return {best->id, TokenNs(*best)};
}

// A change of the holder costs the GPU as much after a long token as after a short one. So long ones are better where they do
// no harm: no kernel makes them longer still, a round of all takes 100 ms at most, nobody is to be served at once, and no set
// waits for several GPUs.
bool DeficitPolicy::MayBeLong(const GpuView& gpu) const {
  constexpr size_t kRoundNs = 100 * kMillisecondNs;
  if (gpu.has_sets || active_.size() > kRoundNs / kLongQuantumNs) return false;
  return std::ranges::all_of(active_, [](const VgpuView* view) {
    return view->overran_ns <= kMillisecondNs && view->spec->priority != Priority::kProtected;
  });
}

int64_t DeficitPolicy::TokenNs(const VgpuView& vgpu) const {
  constexpr int64_t kNearlyNs = kMillisecondNs / 10;  // estimates come close to their bound, and do not reach it
  const int64_t length_ns = LengthNs(vgpu);
  if (somebody_behind_rests_) return std::min(length_ns, kShortQuantumNs);
  return may_be_long_ && length_ns >= kQuantumMaxNs - kNearlyNs ? kLongQuantumNs : length_ns;
}

bool DeficitPolicy::MayJoin(const VgpuView& vgpu) const { return CreditNs(vgpu.id) >= -static_cast<double>(kAheadMaxNs); }

void DeficitPolicy::Forget(VgpuId vgpu) {
  if (vgpu < states_.size()) states_[vgpu] = State();
}

}  // namespace tessera
