// The parts of a trace's time, reckoned by hand.
#include "netaware/trace/trace_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "netaware/trace/summary_text.h"

namespace tessera {
namespace {

// In ns: 0-10 a launch, 10-40 outside of calls, 40-100 a wait: the GPU is busy from 30 to 70, the worker has it from 60 to 80.
TraceFacts SomeFacts() {
  TraceFacts facts;
  facts.program = "train";
  facts.threads = {{1, "main"}, {2, "other"}};
  facts.names = {"cuLaunchKernel", "cuMemcpyDtoH_v2", "add", "tesseraTraceRead"};
  facts.calls = {{1, 0, {0, 10}, 0}, {1, 1, {40, 100}, 1}, {1, 3, {100, 900}, 1}};
  facts.executions = {{1, {60, 80}}, {2, {80, 100}}};
  facts.work = {{2, {30, 70}}};
  facts.servers = 1;
  return facts;
}

TEST(TraceSummary, AThreadsTimeIsDividedWithoutRest) {
  const TraceSummary summary = Summarize(SomeFacts());
  EXPECT_EQ(summary.wall_ns, 100);  // what the library asks at the end is no part of it
  EXPECT_EQ(summary.gpu_ns, 40);
  EXPECT_EQ(summary.thread, "main");
  EXPECT_EQ(summary.calls, 2u);
  EXPECT_EQ(summary.library_ns, 10);
  EXPECT_EQ(summary.program_ns, 30);
  EXPECT_EQ(summary.gpu_wait_ns, 30);
  EXPECT_EQ(summary.server_ns, 10);
  EXPECT_EQ(summary.way_ns, 20);
  EXPECT_EQ(summary.round_trips, 1u);
  ASSERT_EQ(summary.functions.size(), 1u);
  EXPECT_EQ(summary.functions[0].name, "cuMemcpyDtoH_v2");
  EXPECT_EQ(summary.functions[0].thread, "main");
  EXPECT_EQ(summary.functions[0].ns, 30);
}

TEST(TraceSummary, TheThreadThatIsLongestInCallsIsLookedAt) {
  TraceFacts facts = SomeFacts();
  facts.calls.push_back({2, 1, {0, 95}, 1});
  EXPECT_EQ(Summarize(facts).thread, "other");
  facts.threads.clear();
  EXPECT_EQ(Summarize(facts).thread, "2");
}

TEST(TraceSummary, ACallWithinAnotherIsNotCountedTwice) {
  TraceFacts facts = SomeFacts();
  facts.calls.push_back({1, 0, {45, 50}, 0});
  const TraceSummary summary = Summarize(facts);
  EXPECT_EQ(summary.calls, 2u);
  EXPECT_EQ(summary.library_ns, 10);
}

TEST(TraceSummary, ASynchroniseWaitsWithoutAnAnswer) {
  TraceFacts facts = SomeFacts();
  facts.names[1] = "cuEventSynchronize";
  facts.calls[1].waits = 0;
  const TraceSummary summary = Summarize(facts);
  EXPECT_EQ(summary.gpu_wait_ns, 30);
  EXPECT_EQ(summary.round_trips, 0u);
}

TEST(TraceSummary, KernelsThatTookLongestComeFirst) {
  TraceFacts facts = SomeFacts();
  facts.names.push_back("mul");
  facts.work.push_back({4, {70, 90}});
  facts.work.push_back({4, {90, 120}});
  facts.unmeasured = 1;
  const TraceSummary summary = Summarize(facts);
  ASSERT_EQ(summary.kernels.size(), 2u);
  EXPECT_EQ(summary.kernels[0].name, "mul");
  EXPECT_EQ(summary.kernels[0].count, 2u);
  EXPECT_EQ(summary.kernels[0].ns, 50);
  EXPECT_EQ(summary.launches, 4u);
}

TEST(TraceSummary, NoCallsAreNoTime) {
  const TraceSummary summary = Summarize(TraceFacts());
  EXPECT_EQ(summary.wall_ns, 0);
  EXPECT_NE(SummaryText(summary).find("what to change:"), std::string::npos);
}

TEST(SummaryText, IsAboutTenLines) {
  const std::string text = SummaryText(Summarize(SomeFacts()));
  EXPECT_LE(std::ranges::count(text, '\n'), 12);
  EXPECT_NE(text.find("1 launches: add 0.0 us (1x)"), std::string::npos) << text;
  EXPECT_NE(text.find("cuMemcpyDtoH_v2 0.0 us (1x, thread main)"), std::string::npos) << text;
  EXPECT_NE(text.find("  hand-over"), std::string::npos) << text;
  TraceFacts facts = SomeFacts();
  facts.over_link = true;
  EXPECT_NE(SummaryText(Summarize(facts)).find("  network"), std::string::npos);
}

TEST(SummaryJson, HasTheSameAsNumbers) {
  const auto json = nlohmann::json::parse(SummaryJson(Summarize(SomeFacts())));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["gpu"]["kernels"][0]["name"], "add");
  EXPECT_EQ(json["thread"]["way_ns"], 20);
  EXPECT_EQ(json["round_trips"]["functions"][0]["thread"], "main");
  EXPECT_TRUE(json["advice"][0]["text"].is_string());
}

}  // namespace
}  // namespace tessera
