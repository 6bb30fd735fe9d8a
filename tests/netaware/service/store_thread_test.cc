#include "netaware/service/store_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "netaware/store/memory_store.h"

namespace tessera {
namespace {

// A store that is slow, as a disk is: what comes meanwhile is written together.
class SlowStore : public Store {
 public:
  std::optional<StoreEntry> Get(std::string_view key) const override { return inner_->Get(key); }
  std::vector<StoreEntry> Range(std::string_view prefix) const override { return inner_->Range(prefix); }
  std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return inner_->Commit(transactions);
  }
  Result<std::vector<StoreEvent>> Since(uint64_t revision) const override { return inner_->Since(revision); }
  Result<std::vector<StoreRecord>> RecordsAfter(uint64_t number, size_t most) const override {
    return inner_->RecordsAfter(number, most);
  }
  Result<std::vector<StoreRecord>> RecordsBefore(uint64_t number, size_t most) const override {
    return inner_->RecordsBefore(number, most);
  }
  uint64_t last_record() const override { return inner_->last_record(); }
  void SetRecordBounds(const RecordBounds& bounds) override { inner_->SetRecordBounds(bounds); }
  uint64_t revision() const override { return inner_->revision(); }
  uint64_t epoch() const override { return inner_->epoch(); }

 private:
  const std::unique_ptr<Store> inner_ = MakeMemoryStore();
};

TEST(StoreThread, WritesTogetherWhatWaitsAndAnswersEach) {
  SlowStore store;
  std::atomic<int> done = 0;
  uint64_t writes = 0;
  {
    StoreThread writer(store);
    for (int i = 0; i < 800; ++i) {
      writer.Commit({.changes = {{"key" + std::to_string(i), "value"}}}, [&](const StoreResult& result) {
        if (result.outcome == StoreResult::Outcome::kDone) ++done;
      });
      if (i % 8 == 7) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    while (done < 800) std::this_thread::yield();
    writes = writer.writes();
  }
  EXPECT_EQ(store.Range("key").size(), 800U);
  EXPECT_LE(writes, 100U);  // one for eight
}

TEST(StoreThread, AtItsEndWhatWaitsIsWritten) {
  SlowStore store;
  std::atomic<int> done = 0;
  {
    StoreThread writer(store);
    for (int i = 0; i < 10; ++i) writer.Commit({.changes = {{std::to_string(i), "v"}}}, [&](const StoreResult&) { ++done; });
  }
  EXPECT_EQ(done, 10);
  EXPECT_EQ(store.Range("").size(), 10U);
}

}  // namespace
}  // namespace tessera
