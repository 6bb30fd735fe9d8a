// How much each holder may have of an amount: examples, and rules that hold for whatever is asked in whatever order.
#include "server/holders/fair_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tessera {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

// Takes one at a time until it is refused; how many.
uint64_t TakeAll(FairBound& bound, const std::string& holder, uint64_t now_ns = 0) {
  uint64_t taken = 0;
  while (bound.Take(holder, 1, now_ns)) ++taken;
  return taken;
}

TEST(FairBoundTest, OneAloneHasEverythingButTheReserve) {
  FairBound bound({.total = 100, .reserve = 20});
  EXPECT_EQ(TakeAll(bound, "a"), 80u);
  FairBound whole({.total = 100, .reserve = 0});
  EXPECT_EQ(TakeAll(whole, "a"), 100u);
  FairBound large({.total = 100, .reserve = 20});
  EXPECT_FALSE(large.Take("a", 81, 0));
  EXPECT_TRUE(large.Take("a", 80, 0));
}

TEST(FairBoundTest, LimitsThatChangeTakeNothingAway) {
  FairBound bound({.total = 10});
  EXPECT_EQ(TakeAll(bound, "a"), 10u);
  bound.SetLimits({.total = 4});
  EXPECT_FALSE(bound.Take("a", 1, 0));
  EXPECT_FALSE(bound.Take("b", 1, 0));
  EXPECT_EQ(bound.held("a"), 10u);
  bound.GiveBack("a", 7);
  EXPECT_TRUE(bound.Take("b", 1, 0));
  EXPECT_FALSE(bound.Take("b", 1, 0));
  bound.SetLimits({.total = 12});
  EXPECT_TRUE(bound.Take("b", 1, 0));
}

TEST(FairBoundTest, WhoComesNextFindsSome) {
  FairBound bound({.total = 64, .reserve = 8});
  TakeAll(bound, "a");
  EXPECT_EQ(TakeAll(bound, "b"), 4u);
  EXPECT_EQ(TakeAll(bound, "c"), 2u);
  EXPECT_EQ(TakeAll(bound, "d"), 1u);
  EXPECT_EQ(TakeAll(bound, "e"), 1u);
  EXPECT_EQ(TakeAll(bound, "f"), 0u);
  EXPECT_EQ(bound.used(), 64u);
}

TEST(FairBoundTest, WhatIsGivenBackIsForWhoIsShort) {
  FairBound bound({.total = 100, .reserve = 20});
  TakeAll(bound, "a");
  EXPECT_EQ(TakeAll(bound, "b"), 10u);
  bound.Want("b", 60, 0);
  bound.GiveBack("a", 30);
  EXPECT_FALSE(bound.Take("a", 1, kSecondNs));
  while (bound.Take("b", 1, kSecondNs)) bound.Take("a", 1, kSecondNs);
  EXPECT_EQ(bound.held("b"), 30u) << "down to the reserve";
  bound.GiveBack("a", 10);
  while (bound.Take("b", 1, kSecondNs)) bound.Take("a", 1, kSecondNs);
  EXPECT_EQ(bound.held("a"), 40u);
  EXPECT_EQ(bound.held("b"), 40u);
}

TEST(FairBoundTest, WhoWantsLittleLeavesTheRestToOthers) {
  FairBound bound({.total = 100, .reserve = 0});
  EXPECT_TRUE(bound.Take("small", 10, 0));
  EXPECT_TRUE(bound.Take("a", 90, 0));
  EXPECT_FALSE(bound.Take("b", 60, 0));
  bound.GiveBack("a", 90);
  EXPECT_FALSE(bound.Take("a", 46, 0)) << "more than half of what the small one leaves";
  EXPECT_TRUE(bound.Take("a", 45, 0));
  EXPECT_TRUE(bound.Take("b", 45, 0));
}

TEST(FairBoundTest, WhoHasNotAskedForLongAsksNoMore) {
  FairBound bound({.total = 100, .reserve = 0});
  EXPECT_TRUE(bound.Take("a", 100, 0));
  EXPECT_FALSE(bound.Take("b", 50, 0));
  bound.GiveBack("a", 50);
  EXPECT_FALSE(bound.Take("a", 50, FairBound::kAskedNs - 1));
  EXPECT_TRUE(bound.Take("a", 50, FairBound::kAskedNs));
}

TEST(FairBoundTest, NobodyTakesMoreThanAnEqualShareAtOnceWhileOthersAsk) {
  FairBound bound({.total = 99, .reserve = 9});
  bound.Want("b", 99, 0);
  bound.Want("c", 99, 0);
  EXPECT_FALSE(bound.Take("a", 40, 0));
  EXPECT_TRUE(bound.Take("a", 30, 0));
  EXPECT_TRUE(bound.Take("b", 30, 0));
  EXPECT_TRUE(bound.Take("c", 30, 0));
}

TEST(FairBoundTest, WhoWaitsAsks) {
  FairBound bound({.total = 4, .reserve = 0});
  TakeAll(bound, "a");
  bound.Want("b", 2, 0);
  bound.GiveBack("a", 2);
  EXPECT_FALSE(bound.Take("a", 1, 0));
  bound.Want("b", 0, 0);
  EXPECT_TRUE(bound.Take("a", 1, 0));
}

// As a server where each holder has so much in the end that no other could have more without taking from one with less.
std::vector<uint64_t> MaxMinFair(uint64_t total, const std::vector<uint64_t>& demands) {
  std::vector<uint64_t> given(demands.size());
  for (bool any = true; any && total > 0;) {
    any = false;
    for (size_t i = 0; i < demands.size() && total > 0; ++i) {
      if (given[i] == demands[i]) continue;
      ++given[i];
      --total;
      any = true;
    }
  }
  return given;
}

TEST(FairBoundTest, InTheLongRunSharesAreMaxMinFair) {
  std::mt19937 random(7);
  const auto below = [&](uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random); };
  for (int round = 0; round < 60; ++round) {
    const uint64_t total = 20 + below(200), reserve = below(total / 4);
    FairBound bound({.total = total, .reserve = reserve});
    std::vector<uint64_t> demands(1 + below(6));
    for (uint64_t& demand : demands) demand = 1 + below(total);
    const auto name = [](size_t i) { return std::string(1, static_cast<char>('a' + i)); };
    TakeAll(bound, name(0));  // whoever was first has everything
    for (int step = 0; step < 20'000; ++step) {
      const size_t i = below(demands.size());
      const uint64_t held = bound.held(name(i));
      if (held > 0 && below(8) == 0) bound.GiveBack(name(i), 1);
      if (bound.held(name(i)) < demands[i]) bound.Take(name(i), 1, 0);
      ASSERT_LE(bound.used(), total);
    }
    uint64_t demanded = 0, sum = 0;
    for (size_t i = 0; i < demands.size(); ++i) {
      while (bound.held(name(i)) > demands[i]) bound.GiveBack(name(i), 1);
    }
    for (int again = 0; again < 500; ++again) {
      for (size_t i = 0; i < demands.size(); ++i) {
        if (bound.held(name(i)) < demands[i]) bound.Take(name(i), 1, 0);
      }
    }
    const std::vector<uint64_t> fair = MaxMinFair(total - reserve, demands);
    for (size_t i = 0; i < demands.size(); ++i) {
      demanded += demands[i];
      sum += bound.held(name(i));
      EXPECT_GE(bound.held(name(i)) + 1, fair[i]) << "round " << round << ", holder " << i;
    }
    EXPECT_GE(sum, std::min(demanded, total - reserve)) << "something is idle that somebody wants";
  }
}

TEST(FairBoundTest, WhoeverComesGetsOneWhileThereIsOne) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    FairBound bound({.total = 64, .reserve = 8});
    for (int step = 0; step < 300; ++step) {
      const std::string holder(1, static_cast<char>('a' + random() % 4));
      if (random() % 3 == 0) {
        bound.GiveBack(holder, 1 + random() % 5);
      } else {
        bound.Take(holder, 1 + random() % 9, 0);
      }
    }
    const bool any = bound.used() < 64;
    EXPECT_EQ(bound.Take("new", 1, 0), any);
  }
}

TEST(HeldPartTest, IsGivenBackAtItsEnd) {
  FairBound bound({.total = 10});
  {
    HeldPart part(bound, "a", 0);
    EXPECT_TRUE(part.Resize(6, 0));
    EXPECT_FALSE(part.Resize(11, 0));
    EXPECT_EQ(bound.held("a"), 6u);
    EXPECT_TRUE(part.Resize(4, 0));
    HeldPart moved = std::move(part);
    EXPECT_EQ(bound.held("a"), 4u);
    EXPECT_TRUE(moved.Resize(5, 0));
  }
  EXPECT_EQ(bound.held("a"), 0u);
  EXPECT_FALSE(HeldPart().Resize(1, 0));
}

TEST(FairBoundTest, LargeNumbersDoNotWrapAround) {
  FairBound bound({.total = UINT64_MAX, .reserve = 0});
  EXPECT_TRUE(bound.Take("a", UINT64_MAX - 1, 0));
  EXPECT_FALSE(bound.Take("b", UINT64_MAX, 0));
  bound.Want("b", UINT64_MAX, 0);
  bound.Want("c", UINT64_MAX, 0);
  EXPECT_FALSE(bound.Take("a", 2, 0));
  EXPECT_TRUE(bound.Take("b", 1, 0));
  bound.GiveBack("nobody", 5);
  bound.GiveBack("b", 5);
  EXPECT_EQ(bound.used(), UINT64_MAX - 1);
}

}  // namespace
}  // namespace tessera
