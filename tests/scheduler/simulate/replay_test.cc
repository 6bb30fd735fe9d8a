#include "scheduler/simulate/replay.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "scheduler/policies/policies.h"
#include "scheduler/simulate/loads_of_trace.h"
#include "tests/scheduler/simulated_run.h"

namespace tessera {
namespace {

constexpr const char* kLoads =
    "a request=0.3 priority=protected kernel=500us burst=2ms rest=20ms chance=1\n"
    "b request=0.4 kernel=1ms chance=1 sessions=2\n"
    "c limit=0.5 kernel=5ms begin=500ms end=2s\n"
    "d priority=best-effort kernel=50us burst=100us rest=50us\n";

// What a run of all kinds of load says, as a file.
std::string Recorded(std::string_view policy, uint64_t seed) {
  const SimulationOptions options = {.policy = std::string(policy),
                                     .duration_ns = 3 * kSecondNs,
                                     .report_ns = 20'000,
                                     .wake_ns = 60'000,
                                     .spin_ns = 2'000,
                                     .seed = seed};
  std::string text = FormatTraceHead(policy, true);
  const Status done = Simulate(options, Loads(kLoads), [&](const SchedulerEvent& event) { text += FormatTraceEvent(event); });
  EXPECT_TRUE(done.ok()) << done.message();
  return text;
}

TEST(ReplayTest, AnswersAreTheRecordedOnesBitForBit) {
  for (const std::string_view policy : PolicyNames()) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const std::string text = Recorded(policy, seed);
      EXPECT_EQ(text, Recorded(policy, seed));
      const Result<SchedulerTrace> trace = ParseTrace(text);
      ASSERT_TRUE(trace.ok()) << trace.status().message();
      Result<Replayed> replayed = Replay(trace.value());
      ASSERT_TRUE(replayed.ok()) << replayed.status().message();
      EXPECT_EQ(replayed->difference.value_or(""), "") << policy;
      EXPECT_GT(replayed->timeline.decisions, 500u);
    }
  }
}

TEST(ReplayTest, ANanosecondOfDifferenceIsNoticed) {
  SchedulerTrace trace = ParseTrace(Recorded("fair", 1)).value();
  size_t last = 0;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events[i].kind == TraceKind::kGate) last = i;
  }
  trace.events[last].gate.open_until_ns += 1;
  const Result<Replayed> replayed = Replay(trace);
  ASSERT_TRUE(replayed.ok());
  ASSERT_TRUE(replayed.value().difference);
  EXPECT_TRUE(replayed.value().difference->starts_with("line " + std::to_string(trace.lines[last]) + ": the answer is '"))
      << *replayed.value().difference;
}

TEST(ReplayTest, AnAnswerThatWasNotRecordedIsNoticedAndSoIsOneTooMany) {
  SchedulerTrace trace = ParseTrace(Recorded("fair", 1)).value();
  size_t gate = trace.events.size() / 2;
  while (trace.events[gate].kind != TraceKind::kGate || trace.events[gate + 1].kind == TraceKind::kGate) ++gate;
  SchedulerTrace fewer = trace, more = trace;
  fewer.events.erase(fewer.events.begin() + static_cast<ptrdiff_t>(gate));
  fewer.lines.erase(fewer.lines.begin() + static_cast<ptrdiff_t>(gate));
  EXPECT_NE(Replay(fewer).value().difference.value_or("").find("not recorded"), std::string::npos);
  more.events.insert(more.events.begin() + static_cast<ptrdiff_t>(gate), trace.events[gate]);
  more.lines.insert(more.lines.begin() + static_cast<ptrdiff_t>(gate), 1);
  EXPECT_NE(Replay(more).value().difference.value_or("").find("no gate changes here"), std::string::npos);
}

TEST(ReplayTest, WhatNoBrokerSaysIsRefusedWithItsLine) {
  const auto message = [](const std::string& lines) {
    return Replay(ParseTrace(FormatTraceHead("fair", true) + lines).value()).status().message();
  };
  const std::string vgpu = "0 vgpu 0 0.5 1 normal a\n";
  EXPECT_EQ(message("5 wants 0 1\n"), "line 4: session 0 is not there");
  EXPECT_EQ(message("5 came 0 0\n"), "line 4: vGPU 0 is not there");
  EXPECT_EQ(message("5 gone 3\n"), "line 4: vGPU 3 is not there");
  EXPECT_EQ(message("5 spec 3 0 1 normal a\n"), "line 4: vGPU 3 is not there");
  EXPECT_EQ(message("0 vgpu 1 0.5 1 normal a\n"), "line 4: vGPU 1 has the number 0");
  EXPECT_EQ(message(vgpu + "0 came 1 0\n"), "line 5: session 1 has the number 0");
  EXPECT_EQ(message(vgpu + "0 came 0 0\n0 gone 0\n"), "line 6: vGPU 0 has sessions");
  EXPECT_EQ(message(vgpu + "9 decide\n8 decide\n"), "line 6: time goes back from 9");
  EXPECT_EQ(message(vgpu + "0 vgpu 1 0.5 1 normal b\n"),
            "line 5: vGPU 'b': request 0.5 is 0.01 too much: 0.5 of 0.99 are taken, 0.49 are left");
  EXPECT_EQ(Replay({.policy = "best", .events = {}, .lines = {}}).status().code(), StatusCode::kNotFound);
}

// Whatever a file says, it is answered or refused.
TEST(ReplayTest, AnyOrderOfEventsIsAnsweredOrRefused) {
  const std::string text = Recorded("fair", 2);
  const SchedulerTrace whole = ParseTrace(text).value();
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    SchedulerTrace mixed = {.policy = "fair", .events = {}, .lines = {}};
    for (size_t i = 0; i < 12 && i < whole.events.size(); ++i) mixed.events.push_back(whole.events[i]);
    for (int i = 0; i < 200; ++i) mixed.events.push_back(whole.events[random() % whole.events.size()]);
    mixed.lines.resize(mixed.events.size());
    (void)Replay(mixed);
  }
}

TEST(ReplayTest, AnotherPolicyGetsTheSamePrograms) {
  const SchedulerTrace trace = ParseTrace(Recorded("fair", 1)).value();
  const std::vector<Load> loads = LoadsOf(trace);
  ASSERT_EQ(loads.size(), 4u);
  EXPECT_EQ(loads[0].scripts.size(), 1u);
  EXPECT_EQ(loads[1].scripts.size(), 2u);
  EXPECT_EQ(loads[2].scripts[0].begin_ns, 500 * kMillisecondNs);
  int64_t work_ns = 0;
  for (const Load::Piece& piece : loads[0].scripts[0].pieces) work_ns += piece.work_ns;
  EXPECT_GT(work_ns, 100 * kMillisecondNs);
  EXPECT_LT(work_ns, 600 * kMillisecondNs);
  const Timeline timeline = RunOf({.policy = "priority", .duration_ns = 3 * kSecondNs}, loads);
  const Report report = MakeReport(timeline);
  // It is first now, and does what it did.
  EXPECT_NEAR(report.vgpus[0].share * 3e9, static_cast<double>(work_ns), 0.2 * static_cast<double>(work_ns));
}

}  // namespace
}  // namespace tessera
