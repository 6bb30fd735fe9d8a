// What every policy keeps, and what each promises of itself, over random loads in virtual time.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "scheduler/policies/policies.h"
#include "scheduler/simulate/share_grid.h"
#include "tests/scheduler/simulated_run.h"

namespace tessera {
namespace {

constexpr int64_t kDurationNs = 14 * kSecondNs;

struct RandomLoads {
  std::string lines;
  int64_t kernel_max_ns = 0;
  bool limits = false;
};

// Two to eight vGPUs whose requests add up to `requests` at most; half of them never stop, others rest, come late or leave early.
RandomLoads MakeLoads(uint64_t seed, bool limits, double requests = 0.99) {
  std::mt19937_64 random(seed);
  const auto chance = [&](uint64_t of) { return random() % of == 0; };
  const auto part = [&] { return static_cast<double>(random() % 1000) / 1000; };
  RandomLoads loads;
  double left = requests;
  const uint64_t count = 2 + random() % 7;
  for (uint64_t i = 0; i < count; ++i) {
    const double request = chance(5) ? 0 : left * (0.1 + 0.6 * part());
    left -= request;
    constexpr int64_t kKernelsUs[] = {100, 200, 1000, 5000, 20'000};
    const int64_t kernel_us = kKernelsUs[random() % 5];
    loads.kernel_max_ns = std::max(loads.kernel_max_ns, kernel_us * 1000);
    loads.lines += fmt::format("v{} request={:.4f} kernel={}us", i, request, kernel_us);
    if (limits && chance(3)) loads.lines += fmt::format(" limit={:.4f}", std::min(1.0, request + 0.05 + 0.3 * part()));
    constexpr const char* kPriorities[] = {"protected", "normal", "normal", "best-effort"};
    loads.lines += fmt::format(" priority={}", kPriorities[random() % 4]);
    if (chance(2)) loads.lines += fmt::format(" burst={}us rest={}us chance=1", 500 + random() % 60'000, 500 + random() % 60'000);
    if (chance(4)) loads.lines += fmt::format(" begin={}ms", random() % 3000);
    if (chance(6)) loads.lines += fmt::format(" end={}ms", 9000 + random() % 3000);
    loads.lines += "\n";
  }
  return loads;
}

class EveryPolicyTest : public testing::TestWithParam<std::string_view> {
 protected:
  SimulationOptions Options(uint64_t seed) const {
    return {.policy = std::string(GetParam()), .duration_ns = kDurationNs, .seed = seed};
  }
  bool LeavesIdle() const { return GetParam() == "fixed"; }
};

constexpr uint64_t kSeeds = 10;

TEST_P(EveryPolicyTest, NobodyIsBeyondItsLimitAndOneUnit) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RandomLoads loads = MakeLoads(seed, true);
    const Timeline timeline = RunOf(Options(seed), Loads(loads.lines));
    const Report report = MakeReport(timeline, kSettledNs);
    for (const VgpuReport& vgpu : report.vgpus) {
      if (vgpu.limit >= 1) continue;
      // A full bucket, the last unit, and what it may catch up.
      const double unit_ns = static_cast<double>(10 * kMillisecondNs + std::max(loads.kernel_max_ns, 10 * kMillisecondNs));
      const double most_ns = unit_ns + vgpu.limit * static_cast<double>(vgpu.waits.longest_ns);
      EXPECT_LE(vgpu.above_limit_one_second * 1e9, most_ns) << seed << "\n" << loads.lines << ReportAsText(report);
      EXPECT_LE(vgpu.above_limit_ten_seconds * 1e10, most_ns) << seed << "\n" << loads.lines << ReportAsText(report);
    }
  }
}

TEST_P(EveryPolicyTest, TheGpuIsNotIdleWhileSomebodyWantsIt) {
  if (LeavesIdle()) GTEST_SKIP() << "its promise is another one";
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RandomLoads loads = MakeLoads(seed, false);
    const Report report = MakeReport(RunOf(Options(seed), Loads(loads.lines)));
    // But for the look after which tokens begin.
    EXPECT_LE(report.idle_while_wanted, 2e-4) << seed << "\n" << loads.lines << ReportAsText(report);
  }
}

TEST_P(EveryPolicyTest, PartsNeverAddUpToMoreThanTheGpu) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const ShareGrid grid = MakeShareGrid(RunOf(Options(seed), Loads(MakeLoads(seed, true).lines)));
    for (size_t step = 0; step < grid.steps; ++step) {
      double got_ns = 0;
      for (const GridLane& lane : grid.lanes) got_ns += lane.got_ns[step];
      ASSERT_LE(got_ns, kGridStepNs * (1 + 1e-9)) << seed;
    }
  }
}

// A broker wakes for each decision: a few for each burst and each token, however the specs lie.
TEST_P(EveryPolicyTest, DecisionsAreFew) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RandomLoads loads = MakeLoads(seed, true);
    const Timeline timeline = RunOf(Options(seed), Loads(loads.lines));
    EXPECT_LE(timeline.decisions, 4000u * (kDurationNs / kSecondNs)) << seed << "\n" << loads.lines;
  }
}

// Of policies that know requests.
TEST_P(EveryPolicyTest, RequestsAreMetAndNobodyStarves) {
  if (GetParam() == "equal") GTEST_SKIP() << "its promise is another one";
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RandomLoads loads = MakeLoads(seed, false);
    const Report report = MakeReport(RunOf(Options(seed), Loads(loads.lines)), 5 * kSecondNs);
    const double unit = static_cast<double>(std::max(loads.kernel_max_ns, 10 * kMillisecondNs)) / 1e9;
    for (const VgpuReport& vgpu : report.vgpus) {
      if (vgpu.request == 0 || !vgpu.one_second) continue;
      const double units = LeavesIdle() ? 10 : 4;
      EXPECT_LE(vgpu.one_second->below_request, units * unit) << seed << vgpu.name << "\n" << loads.lines << ReportAsText(report);
    }
  }
}

// Whoever wants the GPU all the time has it sooner or later, with a request or without: 1 % of each 10 s are for those without.
TEST_P(EveryPolicyTest, WithoutARequestThereIsStillOnePercentOfTenSeconds) {
  const SimulationOptions options = {.policy = std::string(GetParam()), .duration_ns = 34 * kSecondNs};
  const Timeline timeline =
      RunOf(options, Loads("a request=0.6 priority=protected\nb request=0.39\nc\nd priority=best-effort\n"));
  const ShareGrid grid = MakeShareGrid(timeline);
  const size_t window = static_cast<size_t>(10 * kSecondNs / kGridStepNs);
  // What was queued before tokens began was paid in advance.
  for (size_t begin = static_cast<size_t>(14 * kSecondNs / kGridStepNs); begin + window <= grid.steps; ++begin) {
    double got_ns = 0;
    for (const size_t lane : {2, 3}) {
      for (size_t step = begin; step < begin + window; ++step) got_ns += grid.lanes[lane].got_ns[step];
    }
    ASSERT_GE(got_ns, 0.01 * 10e9 - 20e6) << begin;  // less one token of each
  }
}

std::vector<std::string_view> Names() { return PolicyNames(); }
INSTANTIATE_TEST_SUITE_P(All, EveryPolicyTest, testing::ValuesIn(Names()),
                         [](const auto& info) { return std::string(info.param); });

SimulationOptions By(const std::string& policy) { return {.policy = policy, .duration_ns = 14 * kSecondNs}; }

TEST(FairPromiseTest, WhatNobodyRequestedGoesToWhoHasLeast) {
  const Report report = ReportOf(By("fair"), "a request=0.5\nb request=0.1\nc\n");
  EXPECT_NEAR(report.vgpus[0].share, 0.5, 0.01);
  EXPECT_NEAR(report.vgpus[1].share, 0.25, 0.01);
  EXPECT_NEAR(report.vgpus[2].share, 0.25, 0.01);
}

TEST(FairPromiseTest, ALightProtectedVgpuNeverWaits) {
  const Report report = ReportOf(By("fair"),
                                 "a request=0.3 priority=protected kernel=500us burst=2ms rest=20ms chance=1 begin=1s\nb "
                                 "request=0.3 kernel=20ms\nc request=0.3\n");
  EXPECT_EQ(report.vgpus[0].waits.p99_ns, 0);
}

// Time from its end to the next work is as if it had not been alone before: what was used while others rested is no debt.
TEST(FairPromiseTest, WhatIsTakenWhileOthersRestIsNoDebt) {
  const Timeline timeline = RunOf(By("fair"), Loads("a request=0.5\nb request=0.49 begin=6s\nc limit=0.5 request=0 end=1s\n"));
  for (const VgpuReport& vgpu : MakeReport(timeline, 7 * kSecondNs).vgpus) {
    if (!vgpu.one_second) continue;
    EXPECT_LE(vgpu.one_second->error, 0.02) << vgpu.name;
  }
}

// How long the first waits as a rule for neighbours that take their tokens to the end, in milliseconds.
double WaitMs(const std::string& lines) { return static_cast<double>(ReportOf(By("fair"), lines).vgpus[0].waits.p50_ns) / 1e6; }

TEST(FairPromiseTest, TokensAreLongWhereThatHarmsNobody) {
  const std::string one = "a request=0.1 kernel=200us\n", other = "b request=0.1 kernel=200us\n";
  EXPECT_NEAR(WaitMs(one + other), 14, 0.5);
  EXPECT_NEAR(WaitMs(one + "b request=0.1 kernel=200us priority=protected\n"), 3 * 10, 0.5);
  EXPECT_NEAR(WaitMs(one + "b request=0.1 kernel=4ms\n"), 12, 0.5);       // three kernels
  EXPECT_NEAR(WaitMs(one + "b request=0.1 kernel=5200us\n"), 10.4, 0.5);  // two, though the third would end within its grace
  std::string eight = one;
  for (const char name : std::string("bcdefgh")) eight += std::string(1, name) + " request=0.1 kernel=200us\n";
  EXPECT_NEAR(WaitMs(eight), 7 * 10, 2);
}

TEST(EqualPromiseTest, AllHaveTheSameUpToTheirLimits) {
  const Report report = ReportOf(By("equal"), "a request=0.9\nb\nc kernel=5ms\nd limit=0.1\n");
  for (const size_t each : {0, 1, 2}) EXPECT_NEAR(report.vgpus[each].share, 0.3, 0.01);
  EXPECT_NEAR(report.vgpus[3].share, 0.1, 0.01);
}

TEST(FixedPromiseTest, NobodyHasMoreThanItsSlotThoughTheRestIsIdle) {
  const Report alone = ReportOf(By("fixed"), "a request=0.4\nb request=0.4 burst=1ms rest=1s\n");
  EXPECT_NEAR(alone.vgpus[0].share, 0.5, 0.01);
  EXPECT_LE(alone.busy, 0.52);
  const Report both = ReportOf(By("fixed"), "a request=0.4\nb request=0.4\n");
  for (const VgpuReport& vgpu : both.vgpus) EXPECT_NEAR(vgpu.share, 0.5, 0.01);
}

TEST(FixedPromiseTest, WhoOverrunsItsSlotHasLessOfTheNext) {
  const Report report = ReportOf(By("fixed"), "a request=0.3 kernel=20ms\nb request=0.7 kernel=200us\n");
  EXPECT_NEAR(report.vgpus[0].share, 0.3, 0.02);
}

TEST(PriorityPromiseTest, TheRestGoesToTheHighestClass) {
  const Report report =
      ReportOf(By("priority"), "a request=0.2 priority=protected\nb request=0.3\nc request=0.1 priority=best-effort\n");
  EXPECT_NEAR(report.vgpus[0].share, 0.6, 0.01);
  EXPECT_NEAR(report.vgpus[1].share, 0.3, 0.01);
  EXPECT_NEAR(report.vgpus[2].share, 0.1, 0.01);
}

TEST(PriorityPromiseTest, ProtectedArrivalsDoNotWaitAndBestEffortTakesWhatIsLeft) {
  const Report report =
      ReportOf(By("priority"),
               "a request=0.3 priority=protected kernel=500us burst=2ms rest=8ms chance=1\nb priority=best-effort kernel=1ms\n");
  EXPECT_EQ(report.vgpus[0].waits.p99_ns, 0);
  EXPECT_GE(report.busy, 0.999);
  EXPECT_GE(report.vgpus[1].share, 0.6);
}

// The less of best effort is queued when it arrives, the sooner it is done.
TEST(PriorityPromiseTest, TokensOfBestEffortAreShortWhileTheProtectedLose) {
  const std::string loads =
      "a request=0.3 priority=protected kernel=500us burst=1ms rest=4ms begin=1s\nb priority=best-effort kernel=200us\n";
  const Timeline fair = RunOf(By("fair"), Loads(loads)), priority = RunOf(By("priority"), Loads(loads));
  const auto busy_ns = [](const Timeline& timeline) {
    double sum_ns = 0;
    for (const Interval& each : timeline.lanes[0].ran) sum_ns += static_cast<double>(each.end_ns - each.begin_ns);
    return sum_ns / static_cast<double>(timeline.lanes[0].ran.size());
  };
  EXPECT_LT(busy_ns(priority), 0.85 * busy_ns(fair));
}

}  // namespace
}  // namespace tessera
