#include "netaware/inventory/inventory.h"

#include <gtest/gtest.h>

#include "tests/netaware/some_pool.h"

namespace tessera {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

class InventoryTest : public ::testing::Test {
 protected:
  InventoryTest() {
    EXPECT_TRUE(pool.Join(SomeServer("one", 2), 0).ok());
    EXPECT_TRUE(pool.Join(SomeServer("two", 1), 0).ok());
  }

  const Inventory::Server& ServerOf(const char* id) { return pool.servers().find(id)->second; }
  GpuAmount FreeOf(const char* id, size_t gpu) { return ServerOf(id).gpus[gpu].Free(); }

  Inventory pool;
};

TEST_F(InventoryTest, WhatGrantsAndOthersHaveIsNotFree) {
  ASSERT_TRUE(pool.Hold("a", "one", {{.gpu = 0, .amount = {500'000, 30 * kGiB}}, {.gpu = 1, .amount = {100'000, kGiB}}}).ok());
  ASSERT_TRUE(pool.Hold("a", "two", {{.gpu = 0, .amount = {500'000, 30 * kGiB}}}).ok());
  ASSERT_TRUE(pool.SetOthers("one", {{200'000, 10 * kGiB}, {}}).ok());
  EXPECT_EQ(FreeOf("one", 0), (GpuAmount{300'000, 40 * kGiB}));
  EXPECT_EQ(FreeOf("one", 1), (GpuAmount{900'000, 79 * kGiB}));
  EXPECT_EQ(FreeOf("two", 0), (GpuAmount{500'000, 50 * kGiB}));
  pool.Free("a");
  pool.Free("a");
  EXPECT_EQ(FreeOf("one", 0), (GpuAmount{800'000, 70 * kGiB}));
  EXPECT_EQ(FreeOf("two", 0), (GpuAmount{kWholeShare, 80 * kGiB}));
}

TEST_F(InventoryTest, OthersThatHaveMoreThanThereIsLeaveNothing) {
  ASSERT_TRUE(pool.Hold("a", "two", {{.gpu = 0, .amount = {500'000, 30 * kGiB}}}).ok());
  ASSERT_TRUE(pool.SetOthers("two", {{900'000, 60 * kGiB}}).ok());
  EXPECT_EQ(FreeOf("two", 0), (GpuAmount{0, 0}));
}

TEST_F(InventoryTest, WhatIsRefusedHasTakenNothing) {
  ASSERT_TRUE(pool.Hold("a", "one", {{.gpu = 0, .amount = {600'000, kGiB}}}).ok());
  const Status share = pool.Hold("b", "one", {{.gpu = 1, .amount = {1, 1}}, {.gpu = 0, .amount = {500'000, kGiB}}});
  EXPECT_EQ(share.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(share.message(), "GPU 0 of server 'one' has 400000 ppm of its time left, 100000 fewer than are asked for");
  const Status memory = pool.Hold("b", "one", {{.gpu = 0, .amount = {1, 100 * kGiB}}});
  EXPECT_EQ(memory.message(), "GPU 0 of server 'one' has 79 GiB of memory left, 21 GiB fewer than are asked for");
  EXPECT_EQ(pool.Hold("b", "none", {}).code(), StatusCode::kNotFound);
  EXPECT_EQ(pool.Hold("b", "one", {{.gpu = 2, .amount = {}}}).code(), StatusCode::kNotFound);
  EXPECT_EQ(pool.Hold("b", "one", {{.gpu = 1, .amount = {}}, {.gpu = 1, .amount = {}}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pool.Hold("a", "one", {{.gpu = 1, .amount = {}}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FreeOf("one", 0), (GpuAmount{400'000, 79 * kGiB}));
  EXPECT_EQ(FreeOf("one", 1), (GpuAmount{kWholeShare, 80 * kGiB}));
}

TEST_F(InventoryTest, AServerThatTakesNoTicketsIsNotOffered) {
  PoolServer alone = SomeServer("alone", 1);
  alone.takes_tickets = false;
  ASSERT_TRUE(pool.Join(alone, 0).ok());
  EXPECT_EQ(ServerOf("alone").NotOffered(0), "takes no tickets: its tesserad is to be started with --placer");
  EXPECT_EQ(ServerOf("alone").Away(0), "");
  EXPECT_EQ(ServerOf("one").NotOffered(0), "");
  ASSERT_TRUE(pool.Join({.id = "none"}, 0).ok());
  EXPECT_EQ(ServerOf("none").NotOffered(0), "has no GPU");
  pool.Leave("alone");
  EXPECT_EQ(ServerOf("alone").NotOffered(0), "has left");
  ASSERT_TRUE(pool.Join(SomeServer("alone", 1), 0).ok());
  EXPECT_EQ(ServerOf("alone").NotOffered(0), "");
}

TEST_F(InventoryTest, AnIdAndAGpuAreOfOneServerThatIsThere) {
  EXPECT_EQ(pool.Join(SomeServer("one", 2), 0).message(),
            "a server 'one' is in the pool: give this host another id, or end the other");
  PoolServer thief = SomeServer("three", 1);
  thief.gpus[0].uuid = "GPU-two-0";
  EXPECT_EQ(pool.Join(thief, 0).message(), "GPU-two-0 of server 'three' is in the pool as one of server 'two'");
  PoolServer twice = SomeServer("four", 2);
  twice.gpus[1].uuid = twice.gpus[0].uuid;
  EXPECT_EQ(pool.Join(twice, 0).message(), "server 'four' names GPU-four-0 twice");
  EXPECT_EQ(pool.servers().size(), 2u);
  pool.Leave("two");
  EXPECT_TRUE(pool.Join(thief, 0).ok());
  EXPECT_FALSE(pool.Join(SomeServer("two", 1), 0).ok());
}

TEST_F(InventoryTest, WhatAServerOfGrantsHoldsStaysHeldWhileItIsAway) {
  ASSERT_TRUE(pool.Hold("a", "one", {{.gpu = 1, .amount = {400'000, kGiB}}}).ok());
  ASSERT_TRUE(pool.SetOthers("one", {{100'000, 0}, {}}).ok());
  pool.Leave("one");
  // It comes back with its GPUs in another order, and reports anew the parts that others have.
  PoolServer again = SomeServer("one", 3);
  std::swap(again.gpus[0], again.gpus[1]);
  ASSERT_TRUE(pool.Join(again, 0).ok());
  EXPECT_EQ(FreeOf("one", 0), (GpuAmount{600'000, 79 * kGiB}));
  EXPECT_EQ(FreeOf("one", 1), (GpuAmount{kWholeShare, 80 * kGiB}));
  pool.Leave("one");
  EXPECT_EQ(pool.Join(SomeServer("one", 1), 0).message(),
            "server 'one' came back without GPU-one-1, of which grants hold a part");
  pool.Free("a");
  EXPECT_EQ(FreeOf("one", 0), (GpuAmount{kWholeShare, 80 * kGiB}));
  EXPECT_TRUE(pool.Join(SomeServer("one", 1), 0).ok());
}

TEST_F(InventoryTest, AServerThatHasLeftAndHasNoGrantsCanBeRemoved) {
  ASSERT_TRUE(pool.Hold("a", "one", {{.gpu = 0, .amount = {400'000, kGiB}}}).ok());
  EXPECT_EQ(pool.Remove("none").code(), StatusCode::kNotFound);
  EXPECT_EQ(pool.Remove("one").message(), "server 'one' is connected: stop its tesserad and its tessera-node first");
  pool.Leave("one");
  EXPECT_EQ(pool.Remove("one").message(), "grants hold a part of server 'one': 'tessera drain one --deadline 0' ends them");
  pool.Free("a");
  const uint64_t changes = pool.changes();
  EXPECT_TRUE(pool.Remove("one").ok());
  EXPECT_GT(pool.changes(), changes);
  EXPECT_FALSE(pool.servers().contains("one"));
  pool.Heard("one", kSecondNs);
  EXPECT_FALSE(pool.servers().contains("one"));
  EXPECT_TRUE(pool.Join(SomeServer("one", 1), 0).ok());
}

TEST_F(InventoryTest, WhoIsSilentClosedOrAwayIsNotOffered) {
  EXPECT_EQ(ServerOf("one").NotOffered(15 * kSecondNs - 1), "");
  EXPECT_EQ(ServerOf("one").NotOffered(15 * kSecondNs), "is silent");
  pool.Heard("one", 10 * kSecondNs);
  EXPECT_EQ(ServerOf("one").NotOffered(15 * kSecondNs), "");
  ASSERT_TRUE(pool.Close("one", "its fans are changed").ok());
  EXPECT_EQ(ServerOf("one").NotOffered(0), "is cordoned: its fans are changed");
  ASSERT_TRUE(pool.Open("one").ok());
  pool.Leave("one");
  EXPECT_EQ(ServerOf("one").NotOffered(0), "has left");
  EXPECT_EQ(pool.Close("none", "").message(), "there is no server 'none' in the pool");
  EXPECT_EQ(pool.SetOthers("two", {}).message(), "server 'two' has 1 GPUs, and told of 0");
}

}  // namespace
}  // namespace tessera
