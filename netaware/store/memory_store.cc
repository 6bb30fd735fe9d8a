#include "netaware/store/memory_store.h"

#include <chrono>
#include <utility>

#include "netaware/store/store_image.h"

namespace tessera {
namespace {

class MemoryStore : public Store {
 public:
  std::optional<StoreEntry> Get(std::string_view key) const override { return image_.Get(key); }
  std::vector<StoreEntry> Range(std::string_view prefix) const override { return image_.Range(prefix); }
  std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) override {
    StoreImage::Plan plan = image_.PlanOf(transactions);
    std::vector<StoreResult> results = plan.results;
    image_.Apply(std::move(plan));
    return results;
  }
  Result<std::vector<StoreEvent>> Since(uint64_t revision) const override { return image_.Since(revision); }
  uint64_t revision() const override { return image_.revision(); }
  uint64_t epoch() const override { return epoch_; }

 private:
  StoreImage image_;
  const uint64_t epoch_ = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
};

}  // namespace

std::unique_ptr<Store> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace tessera
