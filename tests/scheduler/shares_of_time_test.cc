// Shares in the simulator, by the bars of a real GPU: 2 points of a second or one kernel, 0.5 of ten; with the times that a
// broker takes to hear and a worker to wake.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include "tests/scheduler/simulated_run.h"

namespace tessera {
namespace {

SimulationOptions Options(const std::string& policy = "fair", int64_t seconds = 16) {
  return {.policy = policy,
          .duration_ns = seconds * kSecondNs,
          .report_ns = 20'000,
          .wake_ns = 60'000,
          .spin_ns = 2'000,
          .changes = {}};
}

struct Shares {
  std::string name;
  std::vector<double> requests;
};

// The kernels of each are one of these: 20 µs to 20 ms.
constexpr const char* kKernels[] = {"20us", "200us", "1ms", "5ms", "20ms"};

class SharesTest : public testing::TestWithParam<Shares> {};

TEST_P(SharesTest, AreRightForKernelsOfAnyLength) {
  for (const char* kernel : kKernels) {
    std::string lines;
    for (const double request : GetParam().requests)
      lines += fmt::format("v{} request={} kernel={}\n", lines.size(), request, kernel);
    const Report report = ReportOf(Options(), lines);
    for (const VgpuReport& vgpu : report.vgpus) {
      ASSERT_TRUE(vgpu.one_second && vgpu.ten_seconds) << lines;
      EXPECT_LE(vgpu.one_second->error, 0.02) << kernel << " " << vgpu.name;
      EXPECT_LE(vgpu.ten_seconds->error, 0.005) << kernel << " " << vgpu.name;
    }
    EXPECT_GE(report.busy, 0.99) << kernel;
    EXPECT_GE(report.jain.value(), 0.9999) << kernel;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharesTest,
                         testing::Values(Shares{"half", {0.5, 0.5}}, Shares{"seventy", {0.7, 0.3}},
                                         Shares{"sixty", {0.6, 0.3, 0.1}},
                                         Shares{"eight", {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125}}),
                         [](const auto& info) { return info.param.name; });

TEST(SharesOfTimeTest, MixedKernelsOfEqualSharesAreEqual) {
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += fmt::format("v{} request=0.125 kernel={}\n", i, kKernels[i % 5]);
  const Report report = ReportOf(Options(), lines);
  EXPECT_GE(report.jain.value(), 0.999);
  for (const VgpuReport& vgpu : report.vgpus) EXPECT_LE(vgpu.one_second->error, 0.02) << vgpu.name;
}

TEST(SharesOfTimeTest, ALimitHoldsAlone) {
  for (const char* kernel : {"20us", "1ms", "10ms"}) {
    const Report report = ReportOf(Options(), fmt::format("v limit=0.3 kernel={}\n", kernel));
    EXPECT_NEAR(report.vgpus[0].share, 0.3, 0.01) << kernel;
    EXPECT_LE(report.vgpus[0].above_limit_tenth, 0.1 + 1e-6) << kernel;
    EXPECT_LE(report.vgpus[0].above_limit_ten_seconds, 0.002) << kernel;
  }
}

TEST(SharesOfTimeTest, WhatOneLeavesIdleAnotherTakes) {
  const Report report = ReportOf(Options(), "a request=0.5 burst=100ms rest=100ms\nb request=0.4 kernel=1ms\n");
  EXPECT_GE(report.busy, 0.97);
  EXPECT_LE(report.idle_while_wanted, 0.005);
}

// One that pauses for as long as handing over would take keeps its token; one that pauses longer does not, and gets its share
// nearly all the same.
TEST(SharesOfTimeTest, WhoPausesShortlyDoesNotStarve) {
  const Report loop = ReportOf(Options("fair", 8), "a request=0.5 kernel=50us burst=50us rest=20us\nb request=0.5 kernel=1ms\n");
  EXPECT_GE(loop.vgpus[0].share, 0.33);
  EXPECT_GE(loop.vgpus[1].share, 0.48);
  const Report pauses = ReportOf(Options("fair", 8), "a request=0.5 kernel=1ms burst=1ms rest=200us\nb request=0.5 kernel=1ms\n");
  EXPECT_GE(pauses.vgpus[0].share, 0.42);
  EXPECT_GE(pauses.vgpus[1].share, 0.42);
}

TEST(SharesOfTimeTest, ANewcomerHasItsShareFromTheSecondWindowOn) {
  const Timeline timeline = RunOf(Options(), Loads("a request=0.5 kernel=200us\nb request=0.5 kernel=200us begin=4s\n"));
  const Report later = MakeReport(timeline, 5 * kSecondNs);
  for (const VgpuReport& vgpu : later.vgpus) EXPECT_LE(vgpu.one_second->error, 0.02) << vgpu.name;
}

TEST(SharesOfTimeTest, SpecsThatChangeEachFifthOfASecondAreFollowed) {
  SimulationOptions options = Options();
  const std::vector<Load> loads = Loads("a request=0.7\nb request=0.3\n");
  for (int64_t i = 1; i * kSecondNs / 5 < options.duration_ns; ++i) {
    const double request = i % 2 == 0 ? 0.7 : 0.3;
    // One makes room before the other takes it.
    SpecChange a = {i * kSecondNs / 5, 0, {.name = "a", .request = request}},
               b = {a.at_ns, 1, {.name = "b", .request = 1 - request}};
    options.changes.push_back(request < 0.5 ? a : b);
    options.changes.push_back(request < 0.5 ? b : a);
  }
  const Timeline timeline = RunOf(options, loads);
  const Report report = MakeReport(timeline, kSettledNs);
  EXPECT_NEAR(report.vgpus[0].share, 0.5, 0.01);
  EXPECT_NEAR(report.vgpus[1].share, 0.5, 0.01);
}

TEST(SharesOfTimeTest, AKernelWithoutEndTakesNoMoreThanTheDriverGivesIt) {
  const Report report = ReportOf(Options("fair", 20), "a request=0.5\nb request=0.5 kernel=1000s burst=1000s\n");
  EXPECT_NEAR(report.vgpus[0].share, 0.5, 0.01);
  EXPECT_LE(report.vgpus[0].waits.p99_ns, 52 * kMillisecondNs);
}

}  // namespace
}  // namespace tessera
