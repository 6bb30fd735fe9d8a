#include "server/worker/gate/queue_estimate.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kStream = 100;
constexpr uint64_t kOther = 200;
constexpr int64_t kBudgetNs = 10 * kMs;

// A queue that knows how long kinds 1 and 2 take.
class QueueEstimateTest : public testing::Test {
 protected:
  // One of this kind, alone, that took so long.
  void Teach(uint64_t kind, int64_t took_ns) {
    queue_.Add(kStream, kind, now_ns_);
    now_ns_ += took_ns;
    queue_.Drained(kStream, now_ns_);
  }

  QueueEstimate queue_;
  int64_t now_ns_ = 1'000 * kMs;
};

TEST_F(QueueEstimateTest, AnUnknownKindGoesInAlone) {
  EXPECT_TRUE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_));
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_FALSE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_));
  EXPECT_FALSE(queue_.MayAdd(kStream, 2, kBudgetNs, now_ns_));
  now_ns_ += 3 * kMs;
  queue_.Drained(kStream, now_ns_);
  EXPECT_TRUE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_));
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_), 3 * kMs);
}

TEST_F(QueueEstimateTest, TheLastOneBeginsWithinTheBudget) {
  Teach(1, 3 * kMs);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_)) << i;
    queue_.Add(kStream, 1, now_ns_);
  }
  EXPECT_FALSE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_));
  // Time passes, and with it what is queued.
  EXPECT_FALSE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_ + 2 * kMs));
  EXPECT_TRUE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_ + 2 * kMs + 1));
}

TEST_F(QueueEstimateTest, WhatIsLongerThanTheBudgetGoesInAlone) {
  Teach(1, 30 * kMs);
  EXPECT_TRUE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_));
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_FALSE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_ + kMs));
}

TEST_F(QueueEstimateTest, TheClientsTimeIsNoWorks) {
  queue_.Add(kStream, 1, now_ns_);
  const int64_t enqueued_ns = now_ns_ + kMs, began_ns = now_ns_ + 4 * kMs;
  queue_.WaitsForClient(kStream, enqueued_ns, began_ns);
  queue_.Drained(kStream, now_ns_ + 90 * kMs);
  now_ns_ += 100 * kMs;
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_), 4 * kMs);
  // Behind the function: how long it takes is not seen.
  queue_.WaitsForClient(kStream, now_ns_ - kMs, now_ns_ + kMs);
  queue_.Drained(kStream, now_ns_ + 50 * kMs);
  now_ns_ += 100 * kMs;
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_), 4 * kMs);
}

TEST_F(QueueEstimateTest, TheBrokerIsToldOfLongWorkOnceItTookThatLongTwice) {
  Teach(1, 3'000 * kMs);
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_), 3'000 * kMs);
  EXPECT_EQ(queue_.ToldNs(now_ns_), QueueEstimate::kUnsureMaxNs);
  now_ns_ += 3'000 * kMs;
  queue_.Drained(kStream, now_ns_);
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.ToldNs(now_ns_), 3'000 * kMs);
  queue_.Drained(kStream, now_ns_ + 1);
  EXPECT_EQ(queue_.ToldNs(now_ns_), 0);
}

TEST_F(QueueEstimateTest, MoreGoesIntoAStreamThatStands) {
  Teach(1, 20 * kMs);
  queue_.Add(kStream, 1, now_ns_);
  const auto add_all = [&](uint64_t stream) {
    int added = 0;
    while (added < 10 && queue_.MayAdd(stream, 1, 2 * kMs, now_ns_)) {
      queue_.Add(stream, 1, now_ns_);
      ++added;
    }
    return added;
  };
  for (int token = 0; token < 3; ++token) {
    now_ns_ += 340 * kMs;
    EXPECT_EQ(add_all(kStream), 3) << token;
  }
  now_ns_ += 340 * kMs;
  EXPECT_EQ(add_all(kOther), 1);  // this one does not stand
}

TEST_F(QueueEstimateTest, AfterItsPatienceAnythingGoesIn) {
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_FALSE(queue_.MayAdd(kStream, 2, kBudgetNs, now_ns_ + QueueEstimate::kPatienceNs - 1));
  EXPECT_TRUE(queue_.MayAdd(kStream, 2, kBudgetNs, now_ns_ + QueueEstimate::kPatienceNs));
}

TEST_F(QueueEstimateTest, AnOverrunEstimateCountsAsNothing) {
  Teach(1, kMs);
  Teach(2, kMs);
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_ + 5 * kMs), 0);
  EXPECT_TRUE(queue_.MayAdd(kStream, 2, kBudgetNs, now_ns_ + 5 * kMs));
}

TEST_F(QueueEstimateTest, LearnsFromManyAtOnce) {
  Teach(1, kMs);
  Teach(2, 2 * kMs);
  // Ten of each took twice as long as was believed: both are.
  for (int i = 0; i < 10; ++i) {
    queue_.Add(kStream, 1, now_ns_);
    queue_.Add(kStream, 2, now_ns_);
  }
  now_ns_ += 60 * kMs;
  queue_.Drained(kStream, now_ns_);
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_), 2 * kMs);
  queue_.Add(kStream, 2, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_), 6 * kMs);
}

TEST_F(QueueEstimateTest, RisesAtOnceAndFallsInSteps) {
  Teach(1, kMs);
  Teach(1, 100 * kMs);
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_), 100 * kMs);
  now_ns_ += kMs;
  queue_.Drained(kStream, now_ns_);
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_GT(queue_.QueuedNs(now_ns_), 50 * kMs);
}

TEST_F(QueueEstimateTest, AKernelThatStaysKeepsNoOtherStreamWaiting) {
  queue_.Add(kOther, 9, now_ns_);  // never done
  for (int i = 0; i < 5; ++i) {
    now_ns_ += 50 * kMs;
    // Another kind, unknown, in another stream: alone there, and learned there.
    EXPECT_TRUE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_)) << i;
    queue_.Add(kStream, 1, now_ns_);
    queue_.Drained(kStream, now_ns_ + kMs);
  }
  EXPECT_TRUE(queue_.MayAdd(kStream, 1, kBudgetNs, now_ns_ + kMs));
  queue_.Add(kStream, 1, now_ns_ + kMs);
  EXPECT_EQ(queue_.QueuedNs(now_ns_ + kMs), kMs);
  // In its own stream whatever comes waits for kPatienceNs.
  queue_.Add(kOther, 9, now_ns_);
  EXPECT_FALSE(queue_.MayAdd(kOther, 1, kBudgetNs, now_ns_ + kMs));
}

TEST_F(QueueEstimateTest, OneUnknownPieceIsInAllStreamsAtATime) {
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_FALSE(queue_.MayAdd(kOther, 2, kBudgetNs, now_ns_ + kMs));
  EXPECT_TRUE(queue_.MayAdd(kOther, 2, kBudgetNs, now_ns_ + QueueEstimate::kPatienceNs));
  queue_.Drained(kStream, now_ns_ + 2 * kMs);
  EXPECT_TRUE(queue_.MayAdd(kOther, 2, kBudgetNs, now_ns_ + 2 * kMs));
}

TEST_F(QueueEstimateTest, UnknownPiecesThatDoNotEndHoldOthersUpForEverLonger) {
  int pieces = 0;
  for (int64_t end_ns = now_ns_ + 1'000 * kMs; now_ns_ < end_ns; now_ns_ += kMs) {
    const auto kind = static_cast<uint64_t>(pieces);
    if (!queue_.MayAdd(1'000 + kind, 10 + kind, kBudgetNs, now_ns_)) continue;
    queue_.Add(1'000 + kind, 10 + kind, now_ns_);
    ++pieces;
  }
  EXPECT_EQ(pieces, 6);  // at 0, 20, 60, 140, 300 and 620 ms
}

TEST_F(QueueEstimateTest, UnknownPiecesInOneStreamComeEverLater) {
  int pieces = 0;
  for (int64_t end_ns = now_ns_ + 1'000 * kMs; now_ns_ < end_ns; now_ns_ += kMs) {
    const auto kind = static_cast<uint64_t>(10 + pieces);
    if (!queue_.MayAdd(kStream, kind, kBudgetNs, now_ns_)) continue;
    queue_.Add(kStream, kind, now_ns_);
    ++pieces;
  }
  EXPECT_EQ(pieces, 7);  // at 0, 20, 60, 140, 300, 620 and 940 ms
  queue_.Drained(kStream, now_ns_);
  EXPECT_TRUE(queue_.MayAdd(kStream, 9, kBudgetNs, now_ns_));
  queue_.Add(kStream, 9, now_ns_);
  EXPECT_TRUE(queue_.MayAdd(kStream, 8, kBudgetNs, now_ns_ + QueueEstimate::kPatienceNs));
}

TEST_F(QueueEstimateTest, IntoFurtherStreamsOnePieceGoesInAtATime) {
  Teach(1, kMs / 1'000);
  for (size_t stream = 0; stream < QueueEstimate::kStreamsMax; ++stream) queue_.Add(1'000 + stream, 1, now_ns_);
  EXPECT_TRUE(queue_.MayAdd(kOther, 1, kBudgetNs, now_ns_));
  queue_.Add(kOther, 1, now_ns_);
  EXPECT_FALSE(queue_.MayAdd(kOther, 1, kBudgetNs, now_ns_ + kMs));
  EXPECT_TRUE(queue_.MayAdd(1'000, 1, kBudgetNs, now_ns_ + kMs));
  EXPECT_TRUE(queue_.MayAdd(kOther, 1, kBudgetNs, now_ns_ + QueueEstimate::kPatienceNs));
}

TEST_F(QueueEstimateTest, HowLongUnknownWorkTookIsToldAfterwards) {
  Teach(1, 3 * kMs);
  EXPECT_EQ(queue_.TakeUntoldNs(), 3 * kMs);
  EXPECT_EQ(queue_.TakeUntoldNs(), 0);
  Teach(1, 9 * kMs);  // it was known
  EXPECT_EQ(queue_.TakeUntoldNs(), 0);
  Teach(2, 90'000 * kMs);
  EXPECT_EQ(queue_.TakeUntoldNs(), QueueEstimate::kUnsureMaxNs);
}

TEST_F(QueueEstimateTest, TooManyKindsTeachNothing) {
  Teach(1, kMs);
  for (uint64_t kind = 1; kind < 100; ++kind) queue_.Add(kStream, kind, now_ns_);
  now_ns_ += 500 * kMs;
  queue_.Drained(kStream, now_ns_);
  queue_.Add(kStream, 1, now_ns_);
  EXPECT_EQ(queue_.QueuedNs(now_ns_), kMs);
}

}  // namespace
}  // namespace tessera
