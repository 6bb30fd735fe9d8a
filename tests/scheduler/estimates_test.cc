#include <gtest/gtest.h>

#include "scheduler/burst_estimate.h"
#include "scheduler/duration_estimate.h"
#include "scheduler/limit_bucket.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

TEST(BurstEstimateTest, FollowsBurstsByHalves) {
  BurstEstimate burst;
  EXPECT_EQ(burst.quantum_ns(), kQuantumFirstNs);
  int64_t billed_ns = 0;
  for (int i = 0; i < 20; ++i) {
    burst.Rested(i * 100 * kMs);
    burst.Resumed(i * 100 * kMs + 50 * kMs, billed_ns += 4 * kMs);
  }
  EXPECT_NEAR(static_cast<double>(burst.quantum_ns()), 4e6, 1e4);
  EXPECT_FALSE(burst.RestsShortly());
}

TEST(BurstEstimateTest, StaysWithinItsBounds) {
  BurstEstimate burst;
  for (int64_t billed_ns = 0, i = 0; i < 20; ++i) burst.TokenUsedUp(billed_ns += kSecondNs);
  EXPECT_NEAR(static_cast<double>(burst.quantum_ns()), static_cast<double>(kQuantumMaxNs), 100);
  int64_t billed_ns = 100 * kSecondNs;
  for (int i = 0; i < 20; ++i) {
    burst.Rested(i * kMs);
    burst.Resumed(i * kMs + kMs / 2, billed_ns += 1000);
  }
  EXPECT_EQ(burst.quantum_ns(), kQuantumMinNs);
}

TEST(BurstEstimateTest, ShortRestsAreNone) {
  BurstEstimate burst;
  int64_t billed_ns = 0;
  for (int i = 0; i < 40; ++i) {
    burst.Rested(i * 20'000);
    burst.Resumed(i * 20'000 + 5'000, billed_ns += 15'000);
  }
  EXPECT_TRUE(burst.RestsShortly());
  EXPECT_GT(burst.quantum_ns(), kQuantumMinNs);  // 40 x 15 µs and more are one burst
}

TEST(DurationEstimateTest, RisesAtOnceAndFallsSlowly) {
  DurationEstimate durations;
  EXPECT_EQ(durations.Find(1), std::nullopt);
  durations.Learn(1, 100);
  durations.Learn(1, 900);
  EXPECT_EQ(durations.Find(1), 900);
  durations.Learn(1, 100);
  EXPECT_EQ(durations.Find(1), 700);
  durations.Learn(2, -5);
  EXPECT_EQ(durations.Find(2), 0);
}

TEST(DurationEstimateTest, IsSureOfWhatItHasSeenTwice) {
  DurationEstimate durations;
  EXPECT_FALSE(durations.IsSure(1));
  durations.Learn(1, 1000);
  EXPECT_FALSE(durations.IsSure(1));
  durations.Learn(1, 1300);
  EXPECT_TRUE(durations.IsSure(1));
  durations.Learn(1, 90'000);  // it was held up
  EXPECT_FALSE(durations.IsSure(1));
  durations.Learn(1, 1000);
  EXPECT_FALSE(durations.IsSure(1));
}

TEST(DurationEstimateTest, KeepsWhatIsUsedAmongMoreThanItHolds) {
  DurationEstimate durations;
  uint64_t found = 0, asked = 0;
  for (uint64_t other = 1000; other < 101'000; ++other) {
    durations.Learn(other, 1);
    if (other % 50 != 0) continue;
    for (uint64_t key = 0; key < 100; ++key) {
      const std::optional<int64_t> duration_ns = durations.Find(key);
      found += duration_ns == static_cast<int64_t>(key);
      ++asked;
      if (!duration_ns) durations.Learn(key, static_cast<int64_t>(key));
    }
  }
  EXPECT_GT(found, asked * 99 / 100);
  uint64_t others = 0;
  for (uint64_t other = 1000; other < 101'000; ++other) others += durations.Find(other).has_value();
  EXPECT_LE(others, DurationEstimate::kEntries);
}

TEST(LimitBucketTest, FillsAtItsRateAndIsNoMoreThanFull) {
  LimitBucket bucket(0.25, 0, 0);
  EXPECT_EQ(bucket.AllowedNs(kMs), LimitBucket::kDepthNs);
  bucket.Advance(10 * kMs, 10 * kMs, 0);  // used 10 of 10 ms
  EXPECT_EQ(bucket.AllowedNs(kMs), 2'500'000 - 2'500'000);
  bucket.Advance(20 * kMs, 10 * kMs, 0);
  EXPECT_EQ(bucket.AllowedNs(kMs), 2'500'000);
  bucket.Advance(kSecondNs, 10 * kMs, 0);
  EXPECT_EQ(bucket.AllowedNs(kMs), LimitBucket::kDepthNs);
  EXPECT_EQ(bucket.AllowedNs(kMs, 8 * kMs), 2 * kMs);
}

TEST(LimitBucketTest, OverrunIsWorkedOffFirst) {
  LimitBucket bucket(0.5, 0, 0);
  bucket.Advance(50 * kMs, 50 * kMs, 0);
  EXPECT_EQ(bucket.AllowedNs(kMs), 0);
  const int64_t at_ns = bucket.AllowedAtNs(kMs);
  EXPECT_NEAR(static_cast<double>(at_ns), 50e6 + (40e6 + 1e6) / 0.5, 10);
  bucket.Advance(at_ns - 10, 50 * kMs, 0);
  EXPECT_EQ(bucket.AllowedNs(kMs), 0);
  bucket.Advance(at_ns, 50 * kMs, 0);
  EXPECT_GE(bucket.AllowedNs(kMs), kMs);
}

TEST(LimitBucketTest, WhatItWaitsForOthersIsNotLost) {
  LimitBucket bucket(0.5, 0, 0);
  bucket.Advance(100 * kMs, 0, 100 * kMs);
  EXPECT_EQ(bucket.AllowedNs(kMs), 60 * kMs);
  bucket.Advance(101 * kMs, 0, 0);
  EXPECT_EQ(bucket.AllowedNs(kMs), 60 * kMs);  // kept, and no more
  // Many waits are no more than the longest of them.
  for (int64_t i = 1; i <= 50; ++i) bucket.Advance((101 + i) * 100 * kMs, 0, 50 * kMs);
  EXPECT_EQ(bucket.AllowedNs(kMs), 60 * kMs);
}

TEST(LimitBucketTest, NoLimitIsNone) {
  LimitBucket bucket(1, 0, 0);
  bucket.Advance(kMs, kSecondNs, 0);
  EXPECT_EQ(bucket.AllowedNs(kMs), INT64_MAX);
}

}  // namespace
}  // namespace tessera
