// `equal`: all that want the GPU get the same, whatever they requested, up to their limits.
#include "scheduler/deficit_policy.h"
#include "scheduler/share_filling.h"

namespace tessera {
namespace {

class EqualPolicy : public DeficitPolicy {
 public:
  std::string_view name() const override { return "equal"; }

 protected:
  void Share(const GpuView& gpu, std::span<const VgpuView* const> active, std::span<double> shares) override {
    bounds_.resize(active.size());
    for (size_t i = 0; i < active.size(); ++i) bounds_[i] = {0, active[i]->spec->limit};
    FillShares(bounds_, 1, shares);
  }

 private:
  std::vector<ShareBounds> bounds_;
};

}  // namespace

std::unique_ptr<Policy> MakeEqualPolicy() { return std::make_unique<EqualPolicy>(); }

}  // namespace tessera
