#include "protocol/rpc/memory_bound.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Found = MemoryBound::Found;

constexpr size_t kOwn = 1000, kMax = 100;
constexpr uint64_t kStepNs = 10'000'000;

// Looks for `seconds`; what the last one found.
Found LookFor(MemoryBound& bound, uint64_t* now_ns, int seconds, size_t bytes, bool nobody) {
  Found found = Found::kFits;
  const uint64_t end_ns = *now_ns + static_cast<uint64_t>(seconds) * 1'000'000'000;
  for (; *now_ns < end_ns && found != Found::kMuchOwn; *now_ns += kStepNs) found = bound.Look(bytes, kMax, nobody, *now_ns);
  return found;
}

TEST(MemoryBound, IsBeyondWhatTheProcessHad) {
  MemoryBound bound(kOwn);
  EXPECT_EQ(bound.Look(kOwn + kMax, kMax, false, 1), Found::kFits);
  EXPECT_EQ(bound.Look(kOwn + kMax + 1, kMax, false, 1), Found::kMuch);
}

TEST(MemoryBound, AFloodThatNeverEndsDoesNotRaiseIt) {
  MemoryBound bound(kOwn);
  uint64_t now_ns = 1;
  EXPECT_EQ(LookFor(bound, &now_ns, 60, kOwn + 2 * kMax, false), Found::kMuch);
  EXPECT_EQ(bound.own_bytes(), kOwn);
}

TEST(MemoryBound, WhatStaysWhenNobodyIsConnectedIsTheProcesssOwn) {
  MemoryBound bound(kOwn);
  uint64_t now_ns = 1;
  EXPECT_EQ(LookFor(bound, &now_ns, 3, kOwn + 5 * kMax, false), Found::kMuch);
  EXPECT_EQ(LookFor(bound, &now_ns, 60, kOwn + 2 * kMax, true), Found::kMuchOwn);
  EXPECT_LT(now_ns, 6'000'000'000u);
  EXPECT_EQ(bound.own_bytes(), kOwn + 2 * kMax) << "the least";
  EXPECT_EQ(bound.Look(kOwn + 3 * kMax, kMax, false, now_ns), Found::kFits);
}

TEST(MemoryBound, ABreakBeginsAnew) {
  MemoryBound bound(kOwn);
  uint64_t now_ns = 1;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(LookFor(bound, &now_ns, 4, kOwn + 2 * kMax, true), Found::kMuch);
    EXPECT_EQ(bound.Look(kOwn, kMax, true, now_ns), Found::kFits);
  }
}

}  // namespace
}  // namespace tessera
