#include "netaware/store/memory_store.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "netaware/store/kept_records.h"
#include "netaware/store/store_image.h"

namespace tessera {
namespace {

class MemoryStore : public Store {
 public:
  // Record numbers begin at the epoch, so they are larger than those of any process before this one.
  MemoryStore() { image_.Load({}, 0, epoch_); }

  std::optional<StoreEntry> Get(std::string_view key) const override { return image_.Get(key); }
  std::vector<StoreEntry> Range(std::string_view prefix) const override { return image_.Range(prefix); }
  std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) override {
    StoreImage::Plan plan = image_.PlanOf(transactions);
    std::vector<StoreResult> results = plan.results;
    Take(plan.records);
    image_.Apply(std::move(plan));
    return results;
  }
  Result<std::vector<StoreEvent>> Since(uint64_t revision) const override { return image_.Since(revision); }
  Result<std::vector<StoreRecord>> RecordsAfter(uint64_t number, size_t most) const override {
    const auto begin = Find(number);
    const auto first = begin != records_.end() && begin->number == number ? begin + 1 : begin;
    return std::vector<StoreRecord>(first, first + std::min<ptrdiff_t>(records_.end() - first, static_cast<ptrdiff_t>(most)));
  }
  Result<std::vector<StoreRecord>> RecordsBefore(uint64_t number, size_t most) const override {
    const auto end = Find(number);
    return std::vector<StoreRecord>(end - std::min<ptrdiff_t>(end - records_.begin(), static_cast<ptrdiff_t>(most)), end);
  }
  uint64_t last_record() const override { return image_.last_record(); }
  void SetRecordBounds(const RecordBounds& bounds) override { kept_.SetBounds(bounds); }
  uint64_t revision() const override { return image_.revision(); }
  uint64_t epoch() const override { return epoch_; }

 private:
  std::deque<StoreRecord>::const_iterator Find(uint64_t number) const {
    return std::lower_bound(records_.begin(), records_.end(), number,
                            [](const StoreRecord& record, uint64_t least) { return record.number < least; });
  }
  void Take(const std::vector<StoreRecord>& records) {
    records_.insert(records_.end(), records.begin(), records.end());
    for (const KeptRecords::Gone& gone : kept_.Add(records).gone) records_.erase(Find(gone.number));
  }

  StoreImage image_;
  std::deque<StoreRecord> records_;
  KeptRecords kept_;
  const uint64_t epoch_ = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
};

}  // namespace

std::unique_ptr<Store> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace tessera
