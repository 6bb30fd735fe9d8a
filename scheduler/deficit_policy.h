// What the policies that divide the GPU's time by shares have in common: who is furthest behind its share is next.
//
// Each vGPU has a credit: what it should have got of the time that was used, less what it was charged. While it wants the GPU its
// credit grows with its share of whatever is used; so credits of those that want it add up to 0, and a newcomer, at 0, is neither
// ahead nor behind. The one with the most credit for its share is next. At rest credit is kept for a second (kRestNs), for those
// that pause while they wait for an answer of their own; a debt is worked off at the share it had, and is never more than what
// the ledger's 10 s window shows.
//
// Tokens are as long as their bursts (VgpuView::quantum_ns); 1 ms (kShortQuantumNs) while somebody rests who is behind, so that
// it does not find the GPU taken for long; kLongQuantumNs where that costs nobody: kernels are short, and few want the GPU.
#pragma once

#include <vector>

#include "scheduler/policy.h"

namespace tessera {

class DeficitPolicy : public Policy {
 public:
  static constexpr int64_t kRestNs = kSecondNs;
  static constexpr int64_t kShortQuantumNs = kMillisecondNs;
  static constexpr int64_t kLongQuantumNs = 14 * kMillisecondNs;
  // How far ahead of its share a vGPU may be and still take the token on arrival (a protected one) or join a set of tokens.
  static constexpr int64_t kAheadMaxNs = 10 * kMillisecondNs;
  // How far one gets behind that waits elsewhere: else it would come back with all the time that it could not have used.
  static constexpr double kElsewhereMaxNs = 10 * kMillisecondNs;

  void Advance(const GpuView& gpu) override;
  Choice Next(const GpuView& gpu) override;
  bool MayPreempt(const VgpuView& arrived) const override { return CreditNs(arrived.id) >= -static_cast<double>(kAheadMaxNs); }
  bool MayJoin(const VgpuView& vgpu) const override;
  void Forget(VgpuId vgpu) override;

  // More than 0: behind its share.
  double CreditNs(VgpuId vgpu) const { return vgpu < states_.size() ? states_[vgpu].credit_ns : 0; }

 protected:
  // The share of each of `active`, which want the GPU now, in their order; they add up to 1 or less, and nobody's is 0.
  virtual void Share(const GpuView& gpu, std::span<const VgpuView* const> active, std::span<double> shares) = 0;
  // How long a token for `vgpu` may be, of what its bursts suggest.
  virtual int64_t LengthNs(const VgpuView& vgpu) const { return vgpu.quantum_ns; }

 private:
  struct State {
    double credit_ns = 0;
    double share = 0;  // while it was last active
    int64_t charged_ns = 0;
    bool active = false;
    bool known = false;
  };

  void Charge(const GpuView& gpu);
  bool MayBeLong(const GpuView& gpu) const;
  int64_t TokenNs(const VgpuView& vgpu) const;
  void LevelOut(const GpuView& gpu);
  bool Takes(const VgpuView& vgpu, const State& state, int64_t now_ns) const;

  std::vector<State> states_;  // by VgpuId
  std::vector<const VgpuView*> active_;
  std::vector<double> shares_;
  int64_t now_ns_ = 0;
  bool somebody_behind_rests_ = false;
  bool may_be_long_ = false;
};

// Of `active`: what each has as its floor. Its request; those with request 0 have kShareWithoutRequest between them.
void RequestFloors(std::span<const VgpuView* const> active, std::span<double> floors);

}  // namespace tessera
