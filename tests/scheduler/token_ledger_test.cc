#include "scheduler/token_ledger.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/scheduler/reference_ledger.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

constexpr int64_t kS = kSecondNs;

// A ledger of `count` vGPUs.
TokenLedger Opened(VgpuId count) {
  TokenLedger ledger;
  for (VgpuId vgpu = 0; vgpu < count; ++vgpu) ledger.Open(vgpu);
  return ledger;
}

void Busy(TokenLedger& ledger, VgpuId vgpu, int64_t begin_ns, int64_t end_ns) {
  ledger.BusyBegan(vgpu, begin_ns);
  ledger.BusyEnded(vgpu, end_ns);
}

TEST(TokenLedgerTest, BillsWhatWasUsedAndNothingOfATokenBeyondIt) {
  TokenLedger ledger = Opened(1);
  ledger.SetToken(0, 10 * kMs);
  Busy(ledger, 0, 1 * kMs, 3 * kMs);
  ledger.Advance(4 * kMs);
  EXPECT_EQ(ledger.UsedNs(0, Window::kOneSecond), 2 * kMs);
  EXPECT_EQ(ledger.UnusedNs(0), 6 * kMs);
  ledger.SetToken(0, 0);
  ledger.Advance(20 * kMs);
  EXPECT_EQ(ledger.UsedNs(0, Window::kTenSeconds), 2 * kMs);
  EXPECT_EQ(ledger.UnusedNs(0), 0);
}

TEST(TokenLedgerTest, BillsOverrunWhileItRuns) {
  TokenLedger ledger = Opened(1);
  ledger.SetToken(0, 10 * kMs);
  ledger.BusyBegan(0, 0);
  ledger.Advance(500 * kMs);
  EXPECT_EQ(ledger.UsedNs(0, Window::kOneSecond), 500 * kMs);
  ledger.Advance(3 * kS);
  EXPECT_EQ(ledger.UsedNs(0, Window::kOneSecond), kS);
  EXPECT_EQ(ledger.UsedNs(0, Window::kTenSeconds), 3 * kS);
  ledger.Advance(30 * kS);
  EXPECT_EQ(ledger.UsedNs(0, Window::kTenSeconds), 10 * kS);
  EXPECT_EQ(ledger.BilledNs(0), 30 * kS);
}

TEST(TokenLedgerTest, OverlapIsDividedAndSessionsOfOneVgpuAreOne) {
  TokenLedger ledger = Opened(3);
  Busy(ledger, 0, 0, 12 * kMs);
  Busy(ledger, 0, 2 * kMs, 10 * kMs);  // another session of it
  Busy(ledger, 1, 6 * kMs, 12 * kMs);
  Busy(ledger, 2, 6 * kMs, 12 * kMs);
  ledger.Advance(20 * kMs);
  // Each piece between two events is rounded down. The first millisecond is still the first one's.
  EXPECT_NEAR(static_cast<double>(ledger.UsedNs(0, Window::kOneSecond)), 7e6 + 5e6 / 3, 2);
  EXPECT_NEAR(static_cast<double>(ledger.UsedNs(1, Window::kOneSecond)), 5e6 / 3, 2);
  EXPECT_NEAR(static_cast<double>(ledger.UsedNs(2, Window::kOneSecond)), 5e6 / 3, 2);
  EXPECT_EQ(ledger.BusyNs(1), 6 * kMs);
  EXPECT_EQ(ledger.GpuBusyNs(), 12 * kMs);
}

TEST(TokenLedgerTest, WhoComesBesideOneThatRunsWaitsForItsTurn) {
  TokenLedger ledger = Opened(3);
  Busy(ledger, 0, 0, 10 * kMs);
  Busy(ledger, 1, 5 * kMs, 5 * kMs + kMs / 2);   // over before its turn: a small kernel that had to wait
  Busy(ledger, 2, 9 * kMs + kMs / 2, 12 * kMs);  // the other one ends before
  ledger.Advance(20 * kMs);
  EXPECT_EQ(ledger.UsedNs(0, Window::kOneSecond), 10 * kMs);
  EXPECT_EQ(ledger.UsedNs(1, Window::kOneSecond), 0);
  EXPECT_EQ(ledger.UsedNs(2, Window::kOneSecond), 2 * kMs);
  EXPECT_EQ(ledger.BusyNs(1), kMs / 2);
}

TEST(TokenLedgerTest, ADebtLastsUntilItsSpanHasLeftTheWindow) {
  TokenLedger ledger = Opened(1);
  Busy(ledger, 0, 0, 8 * kS);
  for (const auto& [at_ns, one_ns, ten_ns] : {std::tuple{8 * kS, kS, 8 * kS},
                                              {9 * kS, int64_t{0}, 8 * kS},
                                              {10 * kS, int64_t{0}, 8 * kS},
                                              {14 * kS, int64_t{0}, 4 * kS},
                                              {18 * kS, int64_t{0}, int64_t{0}}}) {
    ledger.Advance(at_ns);
    EXPECT_EQ(ledger.UsedNs(0, Window::kOneSecond), one_ns) << at_ns;
    EXPECT_EQ(ledger.UsedNs(0, Window::kTenSeconds), ten_ns) << at_ns;
  }
}

TEST(TokenLedgerTest, WhatComesLateIsAsIfItHadComeInTime) {
  TokenLedger ledger = Opened(2);
  ledger.BusyBegan(0, 0);
  ledger.Advance(10 * kMs);
  EXPECT_EQ(ledger.UsedNs(0, Window::kOneSecond), 10 * kMs);
  ledger.BusyEnded(0, 9 * kMs);
  Busy(ledger, 1, 8500'000, 9500'000);
  ledger.Advance(10 * kMs);
  EXPECT_EQ(ledger.UsedNs(0, Window::kOneSecond), 9 * kMs);
  EXPECT_EQ(ledger.UsedNs(1, Window::kOneSecond), 500'000);
}

TEST(TokenLedgerTest, WhatComesTooLateCountsFromWhatIsSettled) {
  TokenLedger ledger = Opened(1);
  ledger.Advance(100 * kMs);
  Busy(ledger, 0, 50 * kMs, 99 * kMs);
  ledger.Advance(100 * kMs);
  EXPECT_EQ(ledger.UsedNs(0, Window::kOneSecond), TokenLedger::kSettleNs - kMs);
}

TEST(TokenLedgerTest, ANumberThatIsUsedAgainBeginsAnew) {
  TokenLedger ledger = Opened(2);
  ledger.BusyBegan(0, 0);
  ledger.BusyBegan(1, 0);
  ledger.Advance(10 * kMs);
  ledger.Close(0);
  const int64_t until_ns = (10 * kMs - BusyTally::kTurnNs) / 2;
  EXPECT_EQ(ledger.BilledNs(1), until_ns);
  ledger.Open(0);
  ledger.Advance(20 * kMs);
  EXPECT_EQ(ledger.BilledNs(0), 0);
  EXPECT_EQ(ledger.UsedNs(0, Window::kTenSeconds), 0);
  EXPECT_EQ(ledger.UsedNs(1, Window::kTenSeconds), 10 * kMs + until_ns);
}

// Random turns of three vGPUs: unused tokens, overrun into the next one's turn, pauses, long kernels. Compared after each turn.
// The largest difference.
double LargestDifferenceNs(uint64_t seed, LedgerFault fault) {
  std::mt19937_64 random(seed);
  const auto between = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  TokenLedger ledger = Opened(3);
  ReferenceLedger reference(fault);
  double largest_ns = 0;
  std::vector<int64_t> free_ns(3, 0);  // when the spans of each have ended
  for (int64_t now_ns = 0, turn = 0; turn < 150; ++turn) {
    const auto vgpu = static_cast<VgpuId>(between(0, 2));
    const int64_t length_ns = turn % 40 == 39 ? between(100 * kMs, 2 * kS) : between(kMs, 200 * kMs);
    const int64_t begin_ns = std::max(now_ns + between(0, kMs), free_ns[vgpu]);
    const int64_t end_ns = begin_ns + between(1, 2 * length_ns);
    const int64_t until_ns = now_ns + length_ns;
    ledger.SetToken(vgpu, until_ns);
    reference.Token(vgpu, now_ns, until_ns);
    reference.Busy(vgpu, begin_ns, end_ns);
    free_ns[vgpu] = end_ns + 1;  // one that ends and begins anew has another turn
    if (between(0, 1) == 0) {
      ledger.BusyBegan(vgpu, begin_ns);
      ledger.BusyEnded(vgpu, end_ns);  // lies ahead, and counts when its time has come
    } else {
      ledger.BusyBegan(vgpu, begin_ns);
      ledger.BusyBegan(vgpu, begin_ns + (end_ns - begin_ns) / 2);
      ledger.BusyEnded(vgpu, end_ns);
      ledger.BusyEnded(vgpu, end_ns);
    }
    now_ns += between(length_ns / 4, length_ns);
    ledger.SetToken(vgpu, 0);
    ledger.Advance(now_ns);
    for (VgpuId each = 0; each < 3; ++each) {
      for (const Window window : {Window::kOneSecond, Window::kTenSeconds}) {
        const double wanted_ns = reference.UsedNs(each, now_ns, LengthNs(window));
        largest_ns = std::max(largest_ns, std::abs(wanted_ns - static_cast<double>(ledger.UsedNs(each, window))));
      }
    }
  }
  return largest_ns;
}

// Spans joined within 10 ms of each other are off by a quarter of it at most, at each end of what is joined; roundings are below
// a microsecond.
constexpr double kDifferenceMaxNs = 3e6;

TEST(TokenLedgerTest, EqualsTheReference) {
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_LT(LargestDifferenceNs(seed, LedgerFault::kNone), kDifferenceMaxNs) << seed;
}

TEST(TokenLedgerTest, EachFaultOfTheReferenceIsNoticed) {
  for (const LedgerFault fault :
       {LedgerFault::kRefundLost, LedgerFault::kOverlapBilledTwice, LedgerFault::kDebtNeverLeaves, LedgerFault::kOverrunFree}) {
    for (uint64_t seed = 1; seed <= 3; ++seed)
      EXPECT_GT(LargestDifferenceNs(seed, fault), 10 * kDifferenceMaxNs) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace tessera
