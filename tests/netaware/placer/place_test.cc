#include "netaware/placer/place.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/netaware/some_pool.h"

namespace tessera {
namespace {

using Outcome = Placement::Outcome;

class PlaceTest : public ::testing::Test {
 protected:
  void Join(const std::string& id, uint32_t gpus, const std::string& model = "NVIDIA H100") {
    ASSERT_TRUE(pool.Join(SomeServer(id, gpus, model), 0).ok());
  }
  void Take(const std::string& server, uint32_t gpu, GpuAmount amount) {
    ASSERT_TRUE(pool.Hold(fmt::format("taken {}", ++taken), server, {{.gpu = gpu, .amount = amount}}).ok());
  }
  Placement Of(const Wish& wish) { return Place(pool, wish, 0); }

  Inventory pool;
  int taken = 0;
};

TEST_F(PlaceTest, TheFullestGpuThatFitsIsTaken) {
  Join("a", 2), Join("b", 2);
  Take("a", 1, {300'000, 10 * kGiB});
  Take("b", 0, {500'000, 10 * kGiB});
  Take("b", 1, {600'000, 10 * kGiB});
  const Wish half{.share = 500'000, .memory_bytes = 20 * kGiB};
  EXPECT_EQ(Of(half).parts, (std::vector<ChosenPart>{{"b", {{0, 20 * kGiB}}}}));
  // Among equally full ones the one with less memory left, then the first.
  Take("a", 1, {200'000, 20 * kGiB});
  EXPECT_EQ(Of(half).parts, (std::vector<ChosenPart>{{"a", {{1, 20 * kGiB}}}}));
  EXPECT_EQ(Of({.share = kWholeShare}).parts, (std::vector<ChosenPart>{{"a", {{0, 79 * kGiB}}}}));
}

TEST_F(PlaceTest, MemoryIsThatOfTheShareLessAContext) {
  Join("a", 1);
  EXPECT_EQ(Of({.share = 250'000}).parts[0].gpus[0].memory_bytes, 19 * kGiB);
  for (int i = 0; i < 4; ++i) {
    const Placement found = Of({.share = 250'000});
    ASSERT_EQ(found.outcome, Outcome::kPlaced);
    Take("a", 0, {250'000, found.parts[0].gpus[0].memory_bytes + kGiB});
  }
  EXPECT_EQ(Of({.share = 250'000}).outcome, Outcome::kWaits);
}

TEST_F(PlaceTest, EachProcessHasAContext) {
  Join("a", 1);
  EXPECT_EQ(Of({.share = 250'000, .processes = 4}).parts[0].gpus[0].memory_bytes, 16 * kGiB);
  EXPECT_EQ(Of({.memory_bytes = 76 * kGiB, .processes = 4}).outcome, Outcome::kPlaced);
  EXPECT_EQ(Of({.memory_bytes = 77 * kGiB, .processes = 4}).reason,
            "1 GPU wanted, 0 of the pool's 1 fit; 1 with too little memory left: the most is 76 GiB, and 77 GiB is wanted beside "
            "4 GiB for the contexts of 4 processes (--processes)");
  // A share that the contexts have for themselves.
  EXPECT_EQ(Of({.share = 50'000, .processes = 4}).outcome, Outcome::kNever);
  EXPECT_EQ(Of({.share = 50'000, .processes = 3}).parts[0].gpus[0].memory_bytes, kGiB);
}

TEST_F(PlaceTest, SeveralGpusAreOfOneServerWhereThatCanBe) {
  Join("a", 4), Join("b", 2);
  EXPECT_EQ(Of({.gpus = 2}).parts, (std::vector<ChosenPart>{{"a", {{0, 79 * kGiB}, {1, 79 * kGiB}}}}));
  Take("b", 0, {1, 1}), Take("b", 1, {1, 1});  // b's two are fuller now
  EXPECT_EQ(Of({.gpus = 2, .share = 500'000}).parts[0].server, "b");
}

TEST_F(PlaceTest, OfEquallyGoodGpusThoseNearOneAnotherAreTaken) {
  const auto join = [&](const std::string& id, const std::vector<std::pair<uint32_t, uint32_t>>& places) {
    PoolServer server = SomeServer(id, static_cast<uint32_t>(places.size()));
    for (size_t i = 0; i < places.size(); ++i) {
      server.gpus[i].numa = places[i].first;
      server.gpus[i].pci_group = places[i].second;
    }
    ASSERT_TRUE(pool.Join(server, 0).ok());
  };
  const auto numbers = [](const Placement& found) {
    std::vector<uint32_t> gpus;
    for (const ChosenGpu& gpu : found.parts.at(0).gpus) gpus.push_back(gpu.gpu);
    return gpus;
  };
  // NUMA nodes 0 and 1 in turn; of node 1 the last two share a switch.
  join("a", {{0, 0}, {1, 1}, {0, 2}, {1, 3}, {1, 3}});
  EXPECT_EQ(numbers(Of({.gpus = 2})), (std::vector<uint32_t>{0, 2}));  // just two: the other three stay together
  EXPECT_EQ(numbers(Of({.gpus = 3})), (std::vector<uint32_t>{1, 3, 4}));
  EXPECT_EQ(numbers(Of({.gpus = 4})).size(), 4u);
  Take("a", 0, {1, 1});  // a fuller one comes first, wherever it is
  EXPECT_EQ(numbers(Of({.gpus = 2, .share = 500'000})), (std::vector<uint32_t>{0, 2}));
  Take("a", 2, {kWholeShare, kGiB});
  EXPECT_EQ(numbers(Of({.gpus = 2, .share = 500'000})), (std::vector<uint32_t>{0, 1}));
  Take("a", 0, {kWholeShare - 1, kGiB});
  EXPECT_EQ(numbers(Of({.gpus = 2})), (std::vector<uint32_t>{3, 4}));
  // Among servers that are equally good the one whose GPUs are near one another.
  join("b", {{0, 0}, {0, 0}});
  Take("a", 3, {kWholeShare, kGiB});
  EXPECT_EQ(Of({.gpus = 2}).parts[0].server, "b");
}

TEST_F(PlaceTest, ElseOfAsFewServersAsPossible) {
  Join("a", 1), Join("b", 4), Join("c", 2), Join("d", 3);
  const Placement found = Of({.gpus = 6});
  ASSERT_EQ(found.outcome, Outcome::kPlaced);
  ASSERT_EQ(found.parts.size(), 2u);
  EXPECT_EQ(found.parts[0].server, "b");
  EXPECT_EQ(found.parts[1].server, "c");  // it has just as many as are missing
  const Placement together = Of({.gpus = 6, .same_server = true});
  EXPECT_EQ(together.outcome, Outcome::kNever);
  EXPECT_EQ(together.reason, "6 GPUs wanted, 10 of the pool's 10 fit; no server has them all");
}

TEST_F(PlaceTest, EachFilterSaysWhatItRefused) {
  Join("a", 1), Join("b", 2, "NVIDIA A100"), Join("c", 1), Join("d", 1);
  Take("a", 0, {600'000, kGiB});
  Take("c", 0, {0, 70 * kGiB});
  ASSERT_TRUE(pool.Close("d", "kernel update").ok());
  const Placement found = Of({.share = 500'000, .memory_bytes = 20 * kGiB, .models = {"NVIDIA H100"}});
  EXPECT_EQ(found.outcome, Outcome::kWaits);
  EXPECT_EQ(
      found.reason,
      "1 GPU wanted, 0 of the pool's 5 fit; 2 of another model: there is NVIDIA A100, NVIDIA H100; 1 of a server that is "
      "cordoned: "
      "kernel update; 1 with less than 0.5 of the time left: the most is 0.4; 1 with too little memory left: the most is 9 GiB, "
      "and "
      "20 GiB is wanted");
}

TEST_F(PlaceTest, WhatNoEmptyPoolHasIsRefusedForGood) {
  Join("a", 2);
  Take("a", 0, {kWholeShare, 0});
  for (const auto& [wish, reason] : {
           std::pair<Wish, const char*>{
               {.memory_bytes = 80 * kGiB},
               "1 GPU wanted, 0 of the pool's 2 fit; 2 with too little memory left: the most is 79 GiB, and "
               "80 GiB is wanted"},
           {{.memory_bytes = ~uint64_t{0}},
            "1 GPU wanted, 0 of the pool's 2 fit; 2 with too little memory left: the most is 79 GiB, and 18446744073709551615 "
            "bytes is "
            "wanted"},
           {{.models = {"NVIDIA H300"}}, "1 GPU wanted, 0 of the pool's 2 fit; 2 of another model: there is NVIDIA H100"},
           {{.gpus = 3}, "3 GPUs wanted, 2 of the pool's 2 fit"},
       }) {
    const Placement found = Of(wish);
    EXPECT_EQ(found.outcome, Outcome::kNever);
    EXPECT_EQ(found.reason, reason);
  }
}

// It may bring the missing part.
TEST_F(PlaceTest, NothingIsRefusedForGoodWhileAServerIsAwaited) {
  EXPECT_EQ(Of({}).outcome, Outcome::kWaits);
  EXPECT_EQ(Of({}).reason, "no server has joined the pool");
  Join("a", 2), Join("b", 1);
  const std::string all = "4 GPUs wanted, 3 of the pool's 3 fit";
  EXPECT_EQ(Of({.gpus = 4}).outcome, Outcome::kNever);
  pool.Leave("a");
  EXPECT_EQ(Of({.gpus = 4}).outcome, Outcome::kWaits);
  EXPECT_EQ(Of({.gpus = 4}).reason, all + "; server 'a' has left");
  const Placement silent = Place(pool, {.gpus = 4}, Inventory::kSilentNs);
  EXPECT_EQ(silent.outcome, Outcome::kWaits);
  EXPECT_EQ(silent.reason, all + "; server 'a' has left; server 'b' is silent");
  Join("a", 2);
  EXPECT_EQ(Of({.gpus = 4}).outcome, Outcome::kNever);
  EXPECT_EQ(Of({.gpus = 4}).reason, all);
  // One that is cordoned is there.
  ASSERT_TRUE(pool.Close("a", "").ok());
  EXPECT_EQ(Of({.gpus = 4}).outcome, Outcome::kNever);
  PoolServer none{.id = "c"};
  Inventory without;
  ASSERT_TRUE(without.Join(none, 0).ok());
  EXPECT_EQ(Place(without, {}, 0).outcome, Outcome::kWaits);
  EXPECT_EQ(Place(without, {}, 0).reason, "no server has joined the pool");
}

TEST_F(PlaceTest, WhatServersDoNotHaveIsRefusedForGoodWithWhatTheyHave) {
  Join("a", 1);
  PoolServer other = SomeServer("b", 1);
  other.gpus[0].priorities = {"protected", "normal", "best-effort"};
  ASSERT_TRUE(pool.Join(other, 0).ok());
  EXPECT_EQ(Of({.priority = "protected"}).parts[0].server, "b");
  EXPECT_EQ(Of({.gpus = 2, .priority = "protected"}).reason,
            "2 GPUs wanted, 1 of the pool's 2 fit; 1 without priority protected: there is normal");
  const Placement packed = Of({.isolation = "packed"});
  EXPECT_EQ(packed.outcome, Outcome::kNever);
  EXPECT_EQ(packed.reason, "1 GPU wanted, 0 of the pool's 2 fit; 2 without isolation packed: there is strict");
}

TEST_F(PlaceTest, AWholeGpuBesideSessionsWithoutATicketIsRefusedWithWhatToDo) {
  PoolServer open = SomeServer("a", 1);
  open.gpus[0].kept_share = 10'000;
  ASSERT_TRUE(pool.Join(open, 0).ok());
  ASSERT_TRUE(pool.SetOthers("a", {{10'000, 0}}).ok());
  const Placement whole = Of({});
  EXPECT_EQ(whole.outcome, Outcome::kNever);
  EXPECT_EQ(
      whole.reason,
      "1 GPU wanted, 0 of the pool's 1 fit; 1 with 0.01 of the time kept for sessions without a ticket: ask for 0.99 at most "
      "(--gpu-share), or have the server started with --admission ticket");
  EXPECT_EQ(Of({.share = 990'000}).outcome, Outcome::kPlaced);
  Join("b", 1);
  EXPECT_EQ(Of({}).parts[0].server, "b");
}

TEST_F(PlaceTest, AJobHasEightServersAndEightGpusOfEachAtMost) {
  Join("large", 10);
  EXPECT_EQ(Of({.gpus = 9}).reason, "9 GPUs wanted, 10 of the pool's 10 fit; a job has 8 of a server and 8 servers at most");
  for (int i = 0; i < 8; ++i) Join(fmt::format("small{}", i), 1);
  EXPECT_EQ(Of({.gpus = 15}).parts.size(), 8u);
  EXPECT_EQ(Of({.gpus = 16}).outcome, Outcome::kNever);
}

// A placed grant can be held, and one that has to wait could not be placed anywhere.
TEST_F(PlaceTest, AnswersAreTrueOfRandomPools) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  for (int server = 0; server < 6; ++server) Join(fmt::format("s{}", server), 1 + below(4));
  int placed = 0, waits = 0;
  std::vector<std::string> grants;
  for (int round = 0; round < 2000; ++round) {
    if (!grants.empty() && below(5) < 2) {
      std::swap(grants[below(static_cast<uint32_t>(grants.size()))], grants.back());
      pool.Free(grants.back());
      grants.pop_back();
    }
    const Wish wish{.gpus = 1 + below(3),
                    .share = 50'000 * (1 + below(20)),
                    .memory_bytes = kGiB * (1 + below(40)),
                    .same_server = below(2) == 0};
    const Placement found = Of(wish);
    EXPECT_EQ(found.parts, Of(wish).parts);
    if (found.outcome == Outcome::kPlaced) {
      ++placed;
      const std::string grant = fmt::format("g{}", round);
      for (const ChosenPart& part : found.parts) {
        std::vector<Inventory::HeldGpu> held;
        for (const ChosenGpu& gpu : part.gpus) held.push_back({gpu.gpu, {wish.share, gpu.memory_bytes + kGiB}});
        const Status status = pool.Hold(grant, part.server, held);
        ASSERT_TRUE(status.ok()) << status.message();
      }
      grants.push_back(grant);
      continue;
    }
    ++waits;
    size_t fit = 0, most_of_server = 0;
    for (const auto& [id, server] : pool.servers()) {
      size_t here = 0;
      for (const Inventory::Gpu& gpu : server.gpus) {
        const GpuAmount free = gpu.Free();
        here += free.share >= wish.share && free.memory_bytes >= *wish.memory_bytes + kGiB;
      }
      fit += here;
      most_of_server = std::max(most_of_server, here);
    }
    EXPECT_LT(wish.same_server ? most_of_server : fit, wish.gpus);
  }
  EXPECT_GT(placed, 500);
  EXPECT_GT(waits, 100);
}

}  // namespace
}  // namespace tessera
