// `priority`: everybody has its request; what is left goes to the protected first, then to the normal, then to best effort.
//
// Protected vGPUs take the token on arrival. How much their arrivals find queued by best effort is held down as in TGS (Wu et
// al., NSDI'23): from what the protected lost of the last 100 ms, by slow start and avoidance. It is simpler than there: what is
// set is how long tokens of best effort are, not a rate, so that the GPU is never idle for it; and the loss is counted, not
// profiled.
#include <algorithm>

#include "scheduler/burst_estimate.h"
#include "scheduler/deficit_policy.h"
#include "scheduler/share_filling.h"

namespace tessera {
namespace {

class PriorityPolicy : public DeficitPolicy {
 public:
  std::string_view name() const override { return "priority"; }

  void Advance(const GpuView& gpu) override {
    if (gpu.now_ns - looked_ns_ >= kLookNs) Look(gpu);
    DeficitPolicy::Advance(gpu);
  }

 protected:
  void Share(const GpuView& gpu, std::span<const VgpuView* const> active, std::span<double> shares) override {
    floors_.resize(active.size());
    RequestFloors(active, floors_);
    double left = 1;
    for (const double floor : floors_) left -= floor;
    for (const Priority priority : {Priority::kProtected, Priority::kNormal, Priority::kBestEffort}) {
      left = std::max(0.0, left);
      std::vector<ShareBounds>& bounds = bounds_;
      bounds.clear();
      double total = left;
      for (size_t i = 0; i < active.size(); ++i) {
        if (active[i]->spec->priority != priority) continue;
        bounds.push_back({floors_[i], active[i]->spec->limit});
        total += floors_[i];
      }
      class_shares_.resize(bounds.size());
      FillShares(bounds, total, class_shares_);
      left = total;
      for (size_t i = 0, j = 0; i < active.size(); ++i) {
        if (active[i]->spec->priority == priority) left -= shares[i] = class_shares_[j++];
      }
    }
  }

  int64_t LengthNs(const VgpuView& vgpu) const override {
    return vgpu.spec->priority == Priority::kBestEffort ? std::min(vgpu.quantum_ns, length_max_ns_) : vgpu.quantum_ns;
  }

 private:
  static constexpr int64_t kLookNs = 100 * kMillisecondNs;
  static constexpr double kUnharmed = 0.03;  // of the protected's time
  static constexpr double kHarmed = 0.09;

  // Of the time since the last look in which protected vGPUs wanted the GPU: the part that they did not have.
  void Look(const GpuView& gpu) {
    int64_t busy_ns = 0, had_ns = 0, waited_ns = 0;
    for (const VgpuView& view : gpu.vgpus) {
      if (view.spec->priority != Priority::kProtected) continue;
      busy_ns += gpu.ledger->BusyNs(view.id);
      had_ns += gpu.ledger->BilledNs(view.id);
      waited_ns += view.waited_ns;
    }
    const double wanted_ns = static_cast<double>((busy_ns - busy_ns_) + (waited_ns - waited_ns_));
    const double lost = wanted_ns > 0 ? 1 - static_cast<double>(had_ns - had_ns_) / wanted_ns : 0;
    busy_ns_ = busy_ns;
    had_ns_ = had_ns;
    waited_ns_ = waited_ns;
    looked_ns_ = gpu.now_ns;
    Adapt(lost);
  }

  void Adapt(double lost) {
    if (lost <= kUnharmed) {
      length_max_ns_ = slow_start_ ? length_max_ns_ * 3 / 2 : length_max_ns_ + kQuantumMinNs / 2;
    } else if (lost < kHarmed) {
      length_max_ns_ = slow_start_ ? length_max_ns_ * 2 / 3 : length_max_ns_ * 92 / 100;
    } else {
      length_max_ns_ /= 10;
    }
    slow_start_ = lost >= kHarmed || (slow_start_ && lost <= kUnharmed);
    length_max_ns_ = std::clamp(length_max_ns_, kQuantumMinNs, kQuantumMaxNs);
  }

  std::vector<double> floors_, class_shares_;
  std::vector<ShareBounds> bounds_;
  int64_t looked_ns_ = 0, busy_ns_ = 0, had_ns_ = 0, waited_ns_ = 0;
  int64_t length_max_ns_ = kQuantumMinNs;
  bool slow_start_ = true;
};

}  // namespace

std::unique_ptr<Policy> MakePriorityPolicy() { return std::make_unique<PriorityPolicy>(); }

}  // namespace tessera
