#include "netaware/service/store_thread.h"
#include "tests/netaware/store/around_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

namespace tessera {
namespace {

// A store that is slow, as a disk is: what comes meanwhile is written together.
class SlowStore : public AroundStore {
 public:
  std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return AroundStore::Commit(transactions);
  }
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
