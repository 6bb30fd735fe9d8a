#include "netaware/service/placer_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "tests/netaware/store/around_store.h"

namespace tessera {
namespace {

// Holds each part that it is ordered to hold.
class ReadyNode : public NodeEnd {
 public:
  explicit ReadyNode(PlacerLoop& loop) : loop_(loop) {}
  void Send(const PlacerOrder& order) override {
    loop_.Post([number = order.number](PlacerCore& core, int64_t now_ms) { core.Answered("gpu7", number, true, now_ms); });
  }
  void SendClock(int64_t) override {}
  void EndSilent() override {}

 private:
  PlacerLoop& loop_;
};

class GrantedJob : public JobEnd {
 public:
  void Tell(const GrantView& view) override {
    if (view.state == Grant::State::kGranted) granted.set_value();
  }
  std::promise<void> granted;
};

// A store whose disk can be full.
class FullStore : public AroundStore {
 public:
  std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) override {
    if (!full) return AroundStore::Commit(transactions);
    return std::vector<StoreResult>(transactions.size(),
                                    {.outcome = StoreResult::Outcome::kFailed, .reason = "the disk is full"});
  }
  std::atomic<bool> full = false;
};

TEST(PlacerLoop, WhatOneHolderWantsDelaysAnothersByASlice) {
  FullStore store;
  const std::unique_ptr<PlacerLoop> loop = PlacerLoop::Start({}, TicketSigner::Make().value(), store).value();
  // The loop stands still from before the first of them is posted until all are.
  std::promise<void> begun, posted, asked, served;
  loop->Post([&begun, all = posted.get_future().share()](PlacerCore&, int64_t) {
    begun.set_value();
    all.wait();
  });
  begun.get_future().wait();
  constexpr size_t kMany = 5'000;
  size_t done = 0, before_ask = 0, before_server = 0;  // of the loop's thread
  for (size_t i = 0; i < kMany; ++i) {
    loop->Post({PlacerWork::kAsk, "name:alice"}, [&](PlacerCore&, int64_t) { ++done; });
  }
  loop->Post({PlacerWork::kAsk, "name:bob"}, [&](PlacerCore&, int64_t) {
    before_ask = done;
    asked.set_value();
  });
  loop->Post({PlacerWork::kServer, "name:gpu7"}, [&](PlacerCore&, int64_t) {
    before_server = done;
    served.set_value();
  });
  posted.set_value();
  served.get_future().wait();
  asked.get_future().wait();
  EXPECT_EQ(before_server, 0U);
  EXPECT_LE(before_ask, 256U);
  loop->End();
  EXPECT_EQ(done, kMany);
}

TEST(PlacerLoop, WhoEndsAGrantHearsWhetherTheStoreHasForgottenIt) {
  FullStore store;
  const std::unique_ptr<PlacerLoop> loop = PlacerLoop::Start({}, TicketSigner::Make().value(), store).value();
  const auto node = std::make_shared<ReadyNode>(*loop);
  loop->Post([&](PlacerCore& core, int64_t now_ms) {
    loop->Attach("gpu7", node, now_ms);
    JoiningNode joins;
    joins.server = {.id = "gpu7", .gpus = {{.uuid = "GPU-01010101-0101-0101-0101-010101010101", .all = {kWholeShare, 1 << 30}}}};
    joins.state.others.resize(1);
    ASSERT_TRUE(core.Join(joins, now_ms).ok());
  });
  for (const bool is_full : {false, true}) {
    const auto job = std::make_shared<GrantedJob>();
    GrantId grant{};
    loop->Post([&](PlacerCore& core, int64_t now_ms) {
      Result<GrantId> placed = core.Place({.holder = "name:alice", .request_id = is_full ? "s" : "r"}, now_ms);
      ASSERT_TRUE(placed.ok());
      grant = *placed;
      loop->Watch(grant, job);
    });
    job->granted.get_future().wait();
    store.full = is_full;
    std::promise<std::pair<bool, size_t>> ended;
    loop->Post([&](PlacerCore& core, int64_t) {
      // In the store's thread, which has the store.
      loop->AfterForgotten(grant, [&](bool stored) { ended.set_value({stored, store.Range(kPlacedKeys).size()}); });
      EXPECT_TRUE(core.Release(grant).ok());
    });
    EXPECT_EQ(ended.get_future().get(), std::pair(!is_full, size_t{is_full ? 1u : 0u}));
  }
  // It is forgotten when there is room.
  store.full = false;
  size_t left = 1;
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
       left != 0 && std::chrono::steady_clock::now() < until;) {
    std::promise<size_t> grants;
    loop->Post([&](PlacerCore&, int64_t) {
      loop->AfterForgotten({}, [&](bool) { grants.set_value(store.Range(kPlacedKeys).size()); });
    });
    left = grants.get_future().get();
  }
  EXPECT_EQ(left, 0u);
}

}  // namespace
}  // namespace tessera
