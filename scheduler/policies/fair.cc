// `fair`, the default. Who wants the GPU has its request, and what is left goes to whoever has least, up to its limit.
#include "scheduler/deficit_policy.h"
#include "scheduler/share_filling.h"

namespace tessera {
namespace {

class FairPolicy : public DeficitPolicy {
 public:
  std::string_view name() const override { return "fair"; }

 protected:
  void Share(const GpuView& gpu, std::span<const VgpuView* const> active, std::span<double> shares) override {
    bounds_.resize(active.size());
    RequestFloors(active, shares);
    for (size_t i = 0; i < active.size(); ++i) bounds_[i] = {shares[i], active[i]->spec->limit};
    FillShares(bounds_, 1, shares);
  }

 private:
  std::vector<ShareBounds> bounds_;
};

}  // namespace

std::unique_ptr<Policy> MakeFairPolicy() { return std::make_unique<FairPolicy>(); }

}  // namespace tessera
