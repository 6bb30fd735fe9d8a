#include "scheduler/simulate/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

// One event of each kind, with values that take all their digits.
std::vector<SchedulerEvent> OneOfEach() {
  const VgpuSpec spec = {.name = "train-7_b.x", .request = 0.1 + 0.2, .limit = 1.0 / 3, .priority = Priority::kBestEffort};
  return {
      {.at_ns = 0, .kind = TraceKind::kVgpu, .id = 0, .spec = spec},
      {.at_ns = 1, .kind = TraceKind::kSpec, .id = 0, .spec = {.name = "b"}},
      {.at_ns = 2, .kind = TraceKind::kCame, .id = 7, .value = 3},
      {.at_ns = 3, .kind = TraceKind::kWants, .id = 7, .value = 1},
      {.at_ns = 4, .kind = TraceKind::kBusy, .id = 7, .value = 0},
      {.at_ns = 5, .kind = TraceKind::kQueued, .id = 7, .value = 123456789012},
      {.at_ns = 6, .kind = TraceKind::kWorked, .id = 7},
      {.at_ns = 6, .kind = TraceKind::kTogether, .id = 7, .value = 1},
      {.at_ns = 6, .kind = TraceKind::kElsewhere, .id = 7, .value = 0},
      {.at_ns = 6, .kind = TraceKind::kAppoint, .id = 0, .value = 123456789012},
      {.at_ns = 7, .kind = TraceKind::kGrant, .id = 0, .value = 0},
      {.at_ns = 7, .kind = TraceKind::kDecide},
      {.at_ns = 7, .kind = TraceKind::kGate, .id = 0, .gate = {GpuMode::kFree, kNever, false}},
      {.at_ns = 8, .kind = TraceKind::kGate, .id = 0, .gate = {GpuMode::kMetered, 12345, true}},
      {.at_ns = 9, .kind = TraceKind::kGate, .id = 0, .gate = {GpuMode::kArmed, kNever, false}},
      {.at_ns = kTraceLengthNsMax, .kind = TraceKind::kLeft, .id = 7},
      {.at_ns = 10, .kind = TraceKind::kGone, .id = 0},
  };
}

std::string TextOf(const std::vector<SchedulerEvent>& events) {
  std::string text = FormatTraceHead("fair", false);
  for (const SchedulerEvent& event : events) text += FormatTraceEvent(event);
  return text;
}

TEST(TraceTest, WhatIsWrittenIsRead) {
  const std::vector<SchedulerEvent> events = OneOfEach();
  const Result<SchedulerTrace> trace = ParseTrace(TextOf(events));
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace.value().policy, "fair");
  EXPECT_FALSE(trace.value().request_zero);
  EXPECT_EQ(trace.value().events, events);
  EXPECT_EQ(trace.value().lines.front(), 4u);
}

// Cut anywhere it is refused with a line, or it is a trace of fewer events: never one with other events.
TEST(TraceTest, ATruncatedTraceIsRefusedOrShorter) {
  const std::vector<SchedulerEvent> events = OneOfEach();
  const std::string text = TextOf(events);
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    const Result<SchedulerTrace> trace = ParseTrace(std::string_view(text).substr(0, bytes));
    if (!trace.ok()) {
      EXPECT_TRUE(trace.status().message().starts_with("line ")) << trace.status().message();
      continue;
    }
    EXPECT_EQ(text[bytes - 1], '\n') << bytes;
    ASSERT_LT(trace.value().events.size(), events.size());
    for (size_t i = 0; i < trace.value().events.size(); ++i) EXPECT_EQ(trace.value().events[i], events[i]);
  }
}

// Each byte as another one: refused, or read as something within bounds.
TEST(TraceTest, ADamagedTraceIsRefusedOrWithinBounds) {
  const std::string text = TextOf(OneOfEach());
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char other : {'\0', ' ', '\n', '-', '9', 'x', '\xff'}) {
      std::string damaged = text;
      damaged[at] = other;
      const Result<SchedulerTrace> trace = ParseTrace(damaged);
      if (!trace.ok()) continue;
      for (const SchedulerEvent& event : trace.value().events) {
        EXPECT_GE(event.at_ns, 0);
        EXPECT_LE(event.at_ns, int64_t{1} << 62);
        EXPECT_GE(event.value, 0);
      }
    }
  }
}

TEST(TraceTest, SaysWhatIsWrongOnWhichLine) {
  const std::string head = FormatTraceHead("fair", true);
  const auto message = [](const std::string& text) { return ParseTrace(text).status().message(); };
  EXPECT_EQ(message(""), "line 1: a trace begins with the line 'tessera-trace 1'");
  EXPECT_EQ(ParseTrace("tessera-trace 2\n").status().code(), StatusCode::kVersionMismatch);
  EXPECT_EQ(message("tessera-trace 1\n"), "line 2: 'policy NAME' is missing");
  EXPECT_TRUE(message(head + "5 wants 1 2\n").starts_with("line 4: '5 wants 1 2' is not an event"));
  EXPECT_TRUE(message(head + "# all is well\n\n-5 decide\n").starts_with("line 6: '-5 decide' is not an event"));
  EXPECT_TRUE(message(head + "5 decide now\n").starts_with("line 4:"));
  EXPECT_TRUE(message(head + "5 decide").starts_with("line 4: '5 decide' is not a whole line"));
  EXPECT_TRUE(
      message(head + "5 decide\n4000000000000 decide\n").starts_with("line 5: '4000000000000 decide' is not within an hour"));
  EXPECT_TRUE(message(head + "5 gate 0 open 7 0\n").starts_with("line 4:"));
  EXPECT_TRUE(message(head + "5 vgpu 0 nan? 1 normal a\n").starts_with("line 4:"));
}

}  // namespace
}  // namespace tessera
