// Work that waits for the client: the session rests meanwhile, and is busy again before its streams go on.
#include "server/worker/gate/held_streams.h"

#include "tests/server/worker/gate/gate_fixture.h"

namespace tessera {
namespace {

class HeldStreamsTest : public GateTest {
 protected:
  HeldStreamsTest() {
    contexts_.Set(kContext);
    OpenFor(10'000 * kMs);
    gate_->Rest();  // what was there before it closed
  }
  HeldStreams& waits() { return gate_->held_streams(); }
  // The driver has work behind a function of the client's.
  uint64_t WorkAndFunction() {
    g_busy = true;
    Work(1);
    const HeldStreams::Wait wait = waits().Expect(stream_, contexts_.current());
    usleep(1000);
    return waits().Began(wait);
  }
  void Rest() {
    usleep(100);  // it is not asked more often
    gate_->Rest();
  }
};

TEST_F(HeldStreamsTest, AStreamThatWaitsForTheClientIsNotBusy) {
  const uint64_t spans = row().span_count;
  const uint64_t wait = WorkAndFunction();
  Rest();
  EXPECT_EQ(row().busy_since_ns, 0u);
  EXPECT_EQ(row().span_count, spans + 1);
  Rings();
  usleep(1000);
  EXPECT_EQ(gate_->Rest(), kNoDeadline);
  EXPECT_EQ(Rings(), 1u);  // the broker hears of the rest
  // Once the client has answered it is busy, whether or not the executor looks.
  const uint64_t answered_ns = MonotonicNs();
  std::thread([&] { waits().Ended(wait); }).join();
  const uint64_t told_ns = MonotonicNs();
  EXPECT_GE(row().busy_since_ns, answered_ns);
  EXPECT_EQ(Rings(), 1u);
  EXPECT_TRUE(gate_->HasNews());
  usleep(3000);
  EXPECT_NE(gate_->Rest(), kNoDeadline);
  EXPECT_FALSE(gate_->HasNews());
  g_busy = false;
  Rest();
  ASSERT_EQ(row().span_count, spans + 2);
  const ReportPage::Span& span = row().spans[(spans + 1) % ReportPage::kSpans];
  EXPECT_LE(span.begin_ns, told_ns);
  EXPECT_GE(span.end_ns - span.begin_ns, 3 * kMs);
}

TEST_F(HeldStreamsTest, WhatWorksBesideItIsBusy) {
  const uint64_t wait = WorkAndFunction();
  const CUstream other = reinterpret_cast<CUstream>(reinterpret_cast<uintptr_t>(stream_) + 8);
  Work(1, other);
  Rest();
  EXPECT_NE(row().busy_since_ns, 0u);
  waits().Ended(wait);
  EXPECT_FALSE(gate_->HasNews());
  Rest();
  EXPECT_NE(row().busy_since_ns, 0u);
}

TEST_F(HeldStreamsTest, WorkThatPassesMeanwhileIsBusy) {
  const uint64_t wait = WorkAndFunction();
  Rest();
  EXPECT_EQ(row().busy_since_ns, 0u);
  const CUstream other = reinterpret_cast<CUstream>(reinterpret_cast<uintptr_t>(stream_) + 8);
  Work(1, other);
  const uint64_t since_ns = row().busy_since_ns;
  EXPECT_NE(since_ns, 0u);
  waits().Ended(wait);
  EXPECT_EQ(row().busy_since_ns, since_ns);
  Rest();
  EXPECT_EQ(row().busy_since_ns, since_ns);
}

TEST_F(HeldStreamsTest, AnAnswerThatComesWhileTheDriverIsAskedIsSeen) {
  const uint64_t wait = WorkAndFunction();
  const HeldStreams::View view = waits().Look();
  ASSERT_NE(view.Find(stream_, kContext), nullptr);
  EXPECT_NE(view.Find(nullptr, kContext), nullptr);  // waits for it, as it is a blocking one
  waits().Ended(wait);
  EXPECT_FALSE(waits().Rest(view, [] { FAIL() << "it does not wait any more"; }));
}

TEST_F(HeldStreamsTest, AnAddressMayBeAnotherStreams) {
  const HeldStreams::Wait before = waits().Expect(stream_, kContext);
  const uint64_t wait = WorkAndFunction();
  waits().StreamGoes();
  EXPECT_EQ(waits().Look().Find(stream_, kContext), nullptr);
  waits().Began(before);
  EXPECT_EQ(waits().Look().Find(stream_, kContext), nullptr);
  Rest();
  EXPECT_NE(row().busy_since_ns, 0u);
  waits().Ended(wait);
}

TEST_F(HeldStreamsTest, CapturedStreamsAreNotAsked) { EXPECT_EQ(waits().Expect(kCaptured, kContext).context, nullptr); }

TEST_F(HeldStreamsTest, WorkBehindItWantsNoTokenForAWhile) {
  const uint64_t wait = WorkAndFunction();
  Rest();
  Close();
  std::thread client([&] {
    usleep(20'000);
    EXPECT_EQ(row().wants_since_ns, 0u);
    waits().Ended(wait);
    while (row().wants_since_ns == 0) usleep(1000);
    EXPECT_NE(row().busy_since_ns, 0u);
    OpenFor(10'000 * kMs);
  });
  Work(1);
  client.join();
}

TEST_F(HeldStreamsTest, TheClientMayNeedWhatStandsBehindIt) {
  const uint64_t wait = WorkAndFunction();
  usleep(2000);
  const uint64_t begin_ns = MonotonicNs();
  Work(1);
  EXPECT_GE(MonotonicNs() - begin_ns, 50 * kMs);
  waits().Ended(wait);
}

TEST_F(HeldStreamsTest, NothingIsToldOnceTheGateIsFree) {
  const uint64_t wait = WorkAndFunction();
  Rest();
  Set({GateMode::kFree, false, 0});
  gate_->Rest();
  waits().Ended(wait);
  EXPECT_EQ(row().busy_since_ns, 0u);
  EXPECT_FALSE(gate_->HasNews());
}

}  // namespace
}  // namespace tessera
