#include "netaware/service/placer_loop.h"

#include <gtest/gtest.h>

#include <future>

#include "netaware/store/memory_store.h"

namespace tessera {
namespace {

// Holds what it is told to hold.
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

TEST(PlacerLoop, WhoWaitsForTheStoreHearsWhenAllBeforeIsThere) {
  const std::unique_ptr<Store> store = MakeMemoryStore();
  const std::unique_ptr<PlacerLoop> loop = PlacerLoop::Start({}, TicketSigner::Make().value(), *store).value();
  const auto node = std::make_shared<ReadyNode>(*loop);
  const auto job = std::make_shared<GrantedJob>();
  GrantId grant{};
  loop->Post([&](PlacerCore& core, int64_t now_ms) {
    loop->Attach("gpu7", node, now_ms);
    JoiningNode joins;
    joins.server = {.id = "gpu7", .gpus = {{.uuid = "GPU-01010101-0101-0101-0101-010101010101", .all = {kWholeShare, 1 << 30}}}};
    joins.state.others.resize(1);
    ASSERT_TRUE(core.Join(joins, now_ms).ok());
    Result<GrantId> placed = core.Place({.holder = "name:alice", .request_id = "r"}, now_ms);
    ASSERT_TRUE(placed.ok());
    grant = *placed;
    loop->Watch(grant, job);
  });
  job->granted.get_future().wait();
  for (const size_t left : {size_t{1}, size_t{0}}) {
    std::promise<size_t> grants;
    loop->Post([&](PlacerCore& core, int64_t) {
      // In the store's thread, which has the store.
      loop->AfterStored([&] { grants.set_value(store->Range(kPlacedKeys).size()); });
      if (left == 0) {
        EXPECT_TRUE(core.Release(grant).ok());
      }
    });
    EXPECT_EQ(grants.get_future().get(), left);
  }
}

}  // namespace
}  // namespace tessera
