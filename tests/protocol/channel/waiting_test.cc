#include "protocol/channel/waiting.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tessera {
namespace {

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
  for (int i = 0; i < 50'000 && spin.limit_ns() <= AdaptiveSpin::kNsMax; ++i) {
    const uint64_t ready_ns = MonotonicNs() + 2 * AdaptiveSpin::kNsMax;
    spin.Spin([&] { return MonotonicNs() >= ready_ns; });
  }
  EXPECT_GT(spin.limit_ns(), AdaptiveSpin::kNsMax);
  EXPECT_LE(spin.limit_ns(), kMaxNs);
}

// Off its core for so long: what a virtual machine's cores are now and then, and what a thread is whose core others need.
void BurnNs(uint64_t ns) {
  const uint64_t end_ns = MonotonicNs() + ns;
  while (MonotonicNs() < end_ns) {
  }
}

TEST(AdaptiveSpin, GoesOnAfterAShortAbsence) {
  bool held = false;
  for (int attempt = 0; attempt < 200 && !held; ++attempt) {  // a busy machine takes the core away for real
    AdaptiveSpin spin(1'000'000'000);
    const uint64_t start_ns = MonotonicNs();
    bool absent = false;
    held = spin.Spin([&] {
      const uint64_t spun_ns = MonotonicNs() - start_ns;
      if (spun_ns > 2'000'000 && !absent) {
        absent = true;
        BurnNs(2 * AdaptiveSpin::kPreemptedNs);
      }
      return spun_ns > 3'000'000;
    });
  }
  EXPECT_TRUE(held);
}

TEST(AdaptiveSpin, EndsWhenItsCoreIsAwayForMuchOfTheTime) {
  AdaptiveSpin spin(10'000'000'000);
  const uint64_t start_ns = MonotonicNs();
  int looks = 0;
  EXPECT_FALSE(spin.Spin([&] {
    if (++looks == 100) BurnNs(5'000'000);
    return false;
  }));
  EXPECT_LT(MonotonicNs() - start_ns, 5'000'000'000u);
}

TEST(AdaptiveSpin, IsTrueAtOnceWhenReady) {
  AdaptiveSpin spin;
  int looks = 0;
  EXPECT_TRUE(spin.Spin([&] { return ++looks == 5; }));
  EXPECT_EQ(looks, 5);
}

TEST(AdaptiveSpin, SpinsLongerAgainWhenThatPays) {
  for (const uint64_t wait_ns : {10'000u, 100'000u}) {
    AdaptiveSpin spin;
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(spin.Spin([] { return false; }));
    // Ready so long after each start: probes find that out sooner or later, also on a busy machine.
    uint64_t limit_ns = spin.limit_ns();
    for (int i = 0; i < 20'000 && limit_ns < wait_ns; ++i) {
      const uint64_t ready_ns = MonotonicNs() + wait_ns;
      spin.Spin([&] { return MonotonicNs() >= ready_ns; });
      limit_ns = spin.limit_ns();
    }
    EXPECT_GE(limit_ns, wait_ns);
  }
}

TEST(AdaptiveSpin, ManySpinnersDoNotStarveTheMachine) {
  // More waiters than cores, for something that never comes: the processor time they burn is bounded.
  const uint64_t begin_ns = MonotonicNs();
  const auto cpu_ns = [] {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
  };
  const uint64_t cpu_begin_ns = cpu_ns();
  std::vector<std::thread> threads;
  std::atomic<uint64_t> waits{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      AdaptiveSpin spin;
      uint32_t word = 0;
      while (MonotonicNs() - begin_ns < 100'000'000) {
        const Status status = SpinThenSleep(
            spin, [] { return false; }, [&](uint64_t timeout_ns) { FutexWait(&word, 0, timeout_ns); }, MonotonicNs() + 5'000'000,
            {});
        EXPECT_EQ(status.code(), StatusCode::kTimedOut);
        ++waits;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(waits.load(), 8u);
  // 8 threads, 100 ms, a wait every 5 ms, each of which may spin for 50 us at the very most: 8 ms; unbounded: 200 ms.
  EXPECT_LT(cpu_ns() - cpu_begin_ns, 50'000'000u);
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
