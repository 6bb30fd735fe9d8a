#include "protocol/channel/waiting.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tessera {
namespace {

// A clock that goes on by a microsecond with every look at it, and further when told: what a thread sees that is never, or for so
// long, off its core.
struct TestClock {
  uint64_t ns = 1'000'000'000;
  uint64_t operator()() { return ns += 1000; }
};

TEST(AdaptiveSpin, GivesUpWithinItsBoundAndSpinsLessAfterFailures) {
  AdaptiveSpin spin;
  const uint64_t before_ns = spin.limit_ns();
  EXPECT_LE(before_ns, AdaptiveSpin::kNsMax);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(spin.Spin([] { return false; }));
  EXPECT_EQ(spin.limit_ns(), AdaptiveSpin::kNsMin);
}

TEST(AdaptiveSpin, MaySpinLonger) {
  constexpr uint64_t kMaxNs = 3'000'000;
  AdaptiveSpin spin(kMaxNs);
  EXPECT_EQ(spin.limit_ns(), kMaxNs);
  // Found out again after failures: beyond the usual bound.
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(spin.Spin([] { return false; }));
  TestClock clock;
  for (int i = 0; i < 10 * static_cast<int>(AdaptiveSpin::kProbeEvery); ++i) {
    const uint64_t ready_ns = clock.ns + 2 * AdaptiveSpin::kNsMax;
    spin.Spin([&] { return clock.ns >= ready_ns; }, [&] { return clock(); });
  }
  EXPECT_GT(spin.limit_ns(), AdaptiveSpin::kNsMax);
  EXPECT_LE(spin.limit_ns(), kMaxNs);
}

TEST(AdaptiveSpin, GoesOnAfterAShortAbsence) {
  TestClock clock;
  AdaptiveSpin spin(1'000'000'000);
  const uint64_t start_ns = clock.ns;
  bool absent = false;
  const auto ready = [&] {
    if (clock.ns - start_ns > 2'000'000 && !absent) {
      absent = true;
      clock.ns += 2 * AdaptiveSpin::kPreemptedNs;
    }
    return clock.ns - start_ns > 3'000'000;
  };
  EXPECT_TRUE(spin.Spin(ready, [&] { return clock(); }));
  EXPECT_TRUE(absent);
}

TEST(AdaptiveSpin, EndsWhenItsCoreIsAwayForMuchOfTheTime) {
  TestClock clock;
  AdaptiveSpin spin(10'000'000'000);
  const uint64_t start_ns = clock.ns;
  int looks = 0;
  const auto never = [&] {
    if (++looks == 100) clock.ns += 5'000'000;
    return false;
  };
  EXPECT_FALSE(spin.Spin(never, [&] { return clock(); }));
  EXPECT_LT(clock.ns - start_ns, 6'000'000u);
}

TEST(AdaptiveSpin, EndsAtItsDeadlineAndLearnsNothingOfIt) {
  TestClock clock;
  AdaptiveSpin spin;
  const uint64_t limit_ns = spin.limit_ns();
  for (int i = 0; i < 20; ++i) {
    const uint64_t until_ns = clock.ns + limit_ns / 4;
    EXPECT_FALSE(spin.Spin([] { return false; }, [&] { return clock(); }, until_ns));
    EXPECT_LE(clock.ns, until_ns + 1000);
  }
  EXPECT_EQ(spin.limit_ns(), limit_ns);
}

TEST(AdaptiveSpin, IsTrueAtOnceWhenReady) {
  AdaptiveSpin spin;
  int looks = 0;
  EXPECT_TRUE(spin.Spin([&] { return ++looks == 5; }));
  EXPECT_EQ(looks, 5);
}

TEST(AdaptiveSpin, SpinsLongerAgainWhenThatPays) {
  for (const uint64_t wait_ns : {10'000u, 100'000u}) {
    TestClock clock;
    AdaptiveSpin spin;
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(spin.Spin([] { return false; }));
    // Ready so long after each start: probes find that out.
    for (int i = 0; i < 10 * static_cast<int>(AdaptiveSpin::kProbeEvery); ++i) {
      const uint64_t ready_ns = clock.ns + wait_ns;
      spin.Spin([&] { return clock.ns >= ready_ns; }, [&] { return clock(); });
    }
    EXPECT_GE(spin.limit_ns(), wait_ns);
  }
}

TEST(AdaptiveSpin, ManySpinnersDoNotStarveTheMachine) {
  // More waiters than cores, for something that never comes: the time they spin is bounded, however often they wait.
  constexpr int kThreads = 8, kWaits = 20;
  std::atomic<uint64_t> spun_ns{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      TestClock clock;
      AdaptiveSpin spin;
      const uint64_t begin_ns = clock.ns;
      for (int i = 0; i < kWaits; ++i) EXPECT_FALSE(spin.Spin([] { return false; }, [&] { return clock(); }));
      spun_ns += clock.ns - begin_ns;
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Each wait may spin half as long as the one before: together not more than the first one twice, and some looks at the clock.
  EXPECT_LT(spun_ns.load(), kThreads * (2 * AdaptiveSpin::kNsMax + kWaits * 3000));
  EXPECT_GE(spun_ns.load(), kThreads * kWaits * 1000u);
}

TEST(SpinThenSleep, WhatIsReadyCountsMoreThanTheEndOfThePeer) {
  AdaptiveSpin spin;
  int looks = 0;
  const Status status = SpinThenSleep(
      spin, [&] { return looks > 0; }, [](uint64_t) {}, kNoDeadline,
      [&] {
        looks = 1;  // became ready just before the peer went
        return Status(StatusCode::kUnavailable, "gone");
      });
  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace tessera
