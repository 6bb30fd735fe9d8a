#include "scheduler/simulate/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scheduler/simulate/timeline_svg.h"

namespace tessera {
namespace {

constexpr int64_t kMs = kMillisecondNs;

// Two that want all the time, for 12 s: `a` runs 6 of each 10 ms, `b` 4, but for one second in which `a` has all.
Timeline SixToFour() {
  Timeline timeline;
  timeline.end_ns = 12 * kSecondNs;
  timeline.lanes.resize(2);
  timeline.lanes[0].spec = {.name = "a", .request = 0.6};
  timeline.lanes[1].spec = {.name = "b", .request = 0.4, .limit = 0.4};
  for (TimelineLane& lane : timeline.lanes) lane.wanted = {{0, 12 * kSecondNs}};
  for (int64_t at_ns = 0; at_ns < 12 * kSecondNs; at_ns += 10 * kMs) {
    const bool all = at_ns >= 5 * kSecondNs && at_ns < 6 * kSecondNs;
    timeline.lanes[0].ran.push_back({at_ns, at_ns + (all ? 10 : 6) * kMs});
    if (!all) timeline.lanes[1].ran.push_back({at_ns + 6 * kMs, at_ns + 10 * kMs});
  }
  for (int64_t wait_ns = 1; wait_ns <= 100; ++wait_ns) timeline.lanes[1].waits_ns.push_back(wait_ns * kMs);
  return timeline;
}

TEST(ReportTest, TellsSharesErrorsAndWaits) {
  const Report report = MakeReport(SixToFour());
  EXPECT_NEAR(report.busy, 1, 1e-9);
  EXPECT_NEAR(report.idle_while_wanted, 0, 1e-9);
  const VgpuReport &a = report.vgpus[0], &b = report.vgpus[1];
  EXPECT_NEAR(a.share, (11 * 0.6 + 1) / 12, 1e-9);
  EXPECT_NEAR(b.share, 11 * 0.4 / 12, 1e-9);
  EXPECT_NEAR(a.one_second->error, 0.4, 1e-9);
  EXPECT_NEAR(b.one_second->below_request, 0.4, 1e-9);
  EXPECT_NEAR(b.ten_seconds->below_request, 0.04, 1e-9);
  EXPECT_NEAR(b.above_limit_one_second, 0, 1e-9);
  EXPECT_NEAR(a.one_second->below_request, 0, 1e-9);
  EXPECT_EQ(b.waits.count, 100u);
  EXPECT_EQ(b.waits.p50_ns, 50 * kMs);
  EXPECT_EQ(b.waits.p99_ns, 99 * kMs);
  EXPECT_EQ(b.waits.longest_ns, 100 * kMs);
  // x = 1.0556 and 0.9167
  EXPECT_NEAR(report.jain.value(), 0.99508, 1e-4);
  EXPECT_NEAR(MakeReport(SixToFour(), 6 * kSecondNs).vgpus[0].one_second->error, 0, 1e-9);
}

TEST(ReportTest, OverlapIsDividedAndIdleTimeIsSeen) {
  Timeline timeline;
  timeline.end_ns = kSecondNs;
  timeline.lanes.resize(2);
  timeline.lanes[0].ran = timeline.lanes[0].wanted = {{0, 400 * kMs}};
  timeline.lanes[1].ran = {{200 * kMs, 600 * kMs}};
  timeline.lanes[1].wanted = {{200 * kMs, 900 * kMs}};
  const Report report = MakeReport(timeline);
  EXPECT_NEAR(report.vgpus[0].share, 0.3, 1e-9);
  EXPECT_NEAR(report.vgpus[1].share, 0.3, 1e-9);
  EXPECT_NEAR(report.busy, 0.6, 1e-9);
  EXPECT_NEAR(report.idle_while_wanted, 0.3, 1e-9);
  EXPECT_FALSE(report.vgpus[0].one_second);
  EXPECT_FALSE(report.jain);
}

TEST(ReportTest, HandOversAreThoseToWhoeverWaited) {
  Timeline timeline;
  timeline.end_ns = 100 * kMs;
  timeline.lanes.resize(2);
  timeline.lanes[0].ran = {{0, 10 * kMs}, {25 * kMs, 30 * kMs}, {31 * kMs, 35 * kMs}, {60 * kMs, 70 * kMs}};
  timeline.lanes[0].wanted = {{0, 10 * kMs}, {15 * kMs, 40 * kMs}, {55 * kMs, 70 * kMs}};
  timeline.lanes[1].ran = {{12 * kMs, 20 * kMs}, {34 * kMs, 40 * kMs}, {80 * kMs, 90 * kMs}};
  timeline.lanes[1].wanted = {{5 * kMs, 20 * kMs}, {33 * kMs, 40 * kMs}, {75 * kMs, 90 * kMs}};
  // 10 -> 12, 20 -> 25, 35 -> 34; not 40 -> 60 and 70 -> 80, which nobody waited in.
  const Report report = MakeReport(timeline);
  EXPECT_EQ(report.hand_overs.count, 3u);
  EXPECT_EQ(report.hand_overs.p50_ns, 2 * kMs);
  EXPECT_EQ(report.hand_overs.longest_ns, 5 * kMs);
  EXPECT_EQ(nlohmann::json::parse(ReportAsJson(report))["hand_overs"]["longest_ns"], 5 * kMs);
  EXPECT_NE(ReportAsText(report).find("3 hand-overs"), std::string::npos);
}

TEST(ReportTest, TextAndJsonSayTheSame) {
  const Report report = MakeReport(SixToFour());
  const nlohmann::json json = nlohmann::json::parse(ReportAsJson(report));
  EXPECT_EQ(json["vgpus"][1]["name"], "b");
  EXPECT_EQ(json["vgpus"][1]["waits"]["longest_ns"], 100 * kMs);
  EXPECT_NEAR(json["vgpus"][0]["one_second"]["error"].get<double>(), 0.4, 1e-9);
  EXPECT_NE(ReportAsText(report).find("40.00"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(ReportAsJson(Report()))["jain"], nullptr);
}

TEST(TimelineSvgTest, ShowsEachRowInAscii) {
  const Timeline timeline = SixToFour();
  const std::string svg = TimelineAsSvg(timeline, 0, timeline.end_ns);
  EXPECT_NE(svg.find(">a</text>"), std::string::npos);
  EXPECT_NE(svg.find(">60 to 100 %</text>"), std::string::npos);
  EXPECT_NE(svg.find(">63.3 %</text>"), std::string::npos);
  EXPECT_TRUE(std::all_of(svg.begin(), svg.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  // Of the second in which `a` had all there is nothing of `b`.
  const std::string second = TimelineAsSvg(timeline, 5 * kSecondNs, 6 * kSecondNs);
  EXPECT_NE(second.find(">0.0 %</text>"), std::string::npos);
  EXPECT_NE(second.find(">100.0 %</text>"), std::string::npos);
}

}  // namespace
}  // namespace tessera
