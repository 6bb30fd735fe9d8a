// The base of the policies that divide the GPU's time by shares: the vGPU furthest behind its share is next.
//
// Each vGPU has a credit: its share of the GPU time that anybody used while it wanted the GPU, less what it was charged. So the
// credits of those that want the GPU add up to 0, and a newcomer starts at 0, neither ahead nor behind. The vGPU with the most
// credit for its share is next. A vGPU at rest keeps its credit for a second (kRestNs), since it may only wait for an answer of
// its own. It works off a debt at the share that it had. A debt is never more than what the ledger's 10 s window shows.
//
// A token is as long as the vGPU's bursts (VgpuView::quantum_ns), with two exceptions. While a vGPU rests that is behind, tokens
// are kShortQuantumNs long, so that it does not find the GPU taken for long. Where kernels are short and few want the GPU they
// are kLongQuantumNs long, since that costs nobody.
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
  // How far behind a vGPU gets while it waits elsewhere. Without this bound it would later claim all the time that it could not
  // have used.
  static constexpr double kElsewhereMaxNs = 10 * kMillisecondNs;

  void Advance(const GpuView& gpu) override;
  Choice Next(const GpuView& gpu) override;
  bool MayPreempt(const VgpuView& arrived) const override { return CreditNs(arrived.id) >= -static_cast<double>(kAheadMaxNs); }
  bool MayJoin(const VgpuView& vgpu) const override;
  void Forget(VgpuId vgpu) override;

  // A credit above 0 means behind its share.
  double CreditNs(VgpuId vgpu) const { return vgpu < states_.size() ? states_[vgpu].credit_ns : 0; }

 protected:
  // Writes the share of each of `active`, the vGPUs that want the GPU now. Each is above 0; they add up to 1 at most.
  virtual void Share(const GpuView& gpu, std::span<const VgpuView* const> active, std::span<double> shares) = 0;
  // How long a token for `vgpu` may be: as its bursts suggest, or shorter.
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

// Writes the floor of each of `active`: its request. All with request 0 have kShareWithoutRequest between them.
void RequestFloors(std::span<const VgpuView* const> active, std::span<double> floors);

}  // namespace tessera
