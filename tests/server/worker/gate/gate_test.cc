#include "server/gate/gate_end.h"
#include "tests/server/worker/gate/gate_fixture.h"

namespace tessera {
namespace {

TEST_F(GateTest, AFreeGateAsksAndTellsNothing) {
  for (int i = 0; i < 100; ++i) Work(1);
  EXPECT_EQ(gate_->Rest(), kNoDeadline);
  EXPECT_EQ(g_questions, 0);
  EXPECT_EQ(Rings(), 0u);
  EXPECT_EQ(row().launches, 0u);
}

TEST_F(GateTest, WhatIsDoneIsCountedAlsoWhileItIsFree) {
  const auto count = [](Gate& gate) {
    gate.CountKernel();
    gate.CountGraph();
    gate.CountBytesTo(1'000);
    gate.CountBytesFrom(100);
  };
  count(*gate_);
  Set({GateMode::kArmed});
  count(*gate_);
  EXPECT_EQ(row().did_kernels, 2u);
  EXPECT_EQ(row().did_graphs, 2u);
  EXPECT_EQ(row().did_bytes_to, 2'000u);
  EXPECT_EQ(row().did_bytes_from, 200u);
  EXPECT_EQ(row().launches, 0u);  // none has passed the gate
  Gate alone(driver_, contexts_, streams_, GatePages{});
  count(alone);
  EXPECT_EQ(row().did_kernels, 2u);
}

TEST_F(GateTest, WhomTheAuditCaughtMayNotGoOn) {
  EXPECT_TRUE(gate_->MayGoOn().ok());
  page_.caught = static_cast<uint32_t>(GateEnd::kCaught);
  EXPECT_EQ(gate_->MayGoOn().code(), StatusCode::kOverran);
  EXPECT_NE(gate_->MayGoOn().message().find("--audit end"), std::string::npos);
}

TEST_F(GateTest, WhoseVgpuWasDeletedMayNotGoOn) {
  page_.caught = static_cast<uint32_t>(GateEnd::kDeleted);
  EXPECT_EQ(gate_->MayGoOn().code(), StatusCode::kUnavailable);
  EXPECT_NE(gate_->MayGoOn().message().find("deleted by force"), std::string::npos);
  page_.caught = static_cast<uint32_t>(GateEnd::kAsked);
  EXPECT_EQ(gate_->MayGoOn().code(), StatusCode::kUnavailable);
  EXPECT_NE(gate_->MayGoOn().message().find("tessera sessions end"), std::string::npos);
  page_.caught = 77;
  EXPECT_TRUE(gate_->MayGoOn().ok());
}

TEST_F(GateTest, SaysWhenWhatWasQueuedBeforeItClosedIsDone) {
  Set({GateMode::kArmed});
  gate_->Rest();
  EXPECT_NE(row().engaged_ns, 0u);
  EXPECT_EQ(row().drained_ns, row().engaged_ns);
  Set({GateMode::kFree});
  gate_->Rest();
  EXPECT_EQ(row().engaged_ns, 0u);
  EXPECT_EQ(row().drained_ns, 0u);
  g_busy = true;
  streams_.Touch(stream_);
  Set({GateMode::kArmed});
  Work(1);
  EXPECT_NE(row().engaged_ns, 0u);
  EXPECT_EQ(row().drained_ns, 0u);
  g_busy = false;
  while (gate_->Rest() != kNoDeadline) usleep(100);
  const uint64_t drained_ns = row().drained_ns;
  EXPECT_GT(drained_ns, row().engaged_ns);
  Work(1);
  while (gate_->Rest() != kNoDeadline) usleep(100);
  EXPECT_EQ(row().drained_ns, drained_ns);
}

TEST_F(GateTest, AStreamThatIsDestroyedCountsUntilItIsDone) {
  g_busy = true;
  OpenFor(60'000 * kMs);
  Work(1);
  streams_.Forget(stream_);
  EXPECT_TRUE(gate_->DestroysWhenDone(stream_, kContext));
  for (int i = 0; i < 3; ++i, usleep(1000)) EXPECT_NE(gate_->Rest(), kNoDeadline);
  EXPECT_NE(row().busy_since_ns, 0u);
  EXPECT_EQ(g_destroyed, 0);
  g_busy = false;
  while (gate_->Rest() != kNoDeadline) usleep(100);
  EXPECT_EQ(row().busy_since_ns, 0u);
  EXPECT_EQ(g_destroyed, 1);
}

TEST_F(GateTest, NoStreamIsKeptForAGateThatIsFreeNorForAContextThatEnds) {
  g_busy = true;
  EXPECT_FALSE(gate_->DestroysWhenDone(stream_, kContext));
  OpenFor(60'000 * kMs);
  EXPECT_TRUE(gate_->DestroysWhenDone(stream_, kContext));  // before anything else has seen that it closed
  gate_->idle_watch().ForgetContext(kContext);
  EXPECT_EQ(g_destroyed, 1);
  EXPECT_TRUE(gate_->DestroysWhenDone(stream_, nullptr));
  Set({GateMode::kFree});
  gate_->Rest();
  EXPECT_EQ(g_destroyed, 2);
}

TEST_F(GateTest, SaysWhichGpusTheSessionSees) {
  EXPECT_EQ(report_.visible_rows, 1u);
  const UniqueFd event(eventfd(0, EFD_NONBLOCK));
  page_.rows[0].uuid[3] ^= 1;
  report_.visible_rows = 9;
  Gate other(driver_, contexts_, streams_, GatePages{&page_, &report_, event.get()});
  EXPECT_EQ(report_.visible_rows, 0u);
}

TEST_F(GateTest, AnOldDriverHasOneFormOfUuids) {
  DriverTable old = driver_;
  old.cuDeviceGetUuid = old.cuDeviceGetUuid_v2;
  old.cuDeviceGetUuid_v2 = nullptr;
  report_.visible_rows = 0;
  const UniqueFd event(eventfd(0, EFD_NONBLOCK));
  Gate gate(old, contexts_, streams_, GatePages{&page_, &report_, event.get()});
  EXPECT_EQ(report_.visible_rows, 1u);
}

TEST_F(GateTest, WorkWaitsForItsTokenAndSaysSo) {
  Close();
  std::thread broker([&] {
    while (row().wants_since_ns == 0) usleep(1000);
    usleep(5000);
    EXPECT_EQ(row().launches, 0u);
    EXPECT_GE(Rings(), 1u);
    OpenFor(1'000 * kMs);
  });
  Work(1);
  broker.join();
  EXPECT_EQ(row().launches, 1u);
  EXPECT_EQ(row().wants_since_ns, 0u);
  EXPECT_NE(row().busy_since_ns, 0u);
  EXPECT_GE(row().longest_wait_ns, 5 * kMs);
}

TEST_F(GateTest, ASpanEndsWhenTheDriverHasDoneEverything) {
  OpenFor(1'000 * kMs);
  gate_->Rest();  // what was there before it closed
  Rings();        // on a slow machine that rest has lasted already
  const uint64_t spans = row().span_count;
  g_busy = true;
  Work(1);
  EXPECT_NE(gate_->Rest(), kNoDeadline);
  EXPECT_EQ(row().span_count, spans);
  usleep(3000);
  g_busy = false;
  gate_->Rest();
  ASSERT_EQ(row().span_count, spans + 1);
  const ReportPage::Span& span = row().spans[spans % ReportPage::kSpans];
  EXPECT_GE(span.end_ns - span.begin_ns, 3 * kMs);
  EXPECT_EQ(row().busy_since_ns, 0u);
  // The broker hears of a rest that lasts.
  EXPECT_EQ(Rings(), 0u);
  usleep(1000);
  gate_->Rest();
  EXPECT_EQ(Rings(), 1u);
  EXPECT_EQ(gate_->Rest(), kNoDeadline);
}

TEST_F(GateTest, WhatALaunchTakesBeforeAnIdleGpuHasItIsNotBilled) {
  OpenFor(1000 * kMs);
  gate_->AwaitLaunch(stream_, 1);
  const uint64_t passed_ns = row().busy_since_ns;
  EXPECT_NE(passed_ns, 0u);
  g_busy = true;
  usleep(1000);
  gate_->Launched();
  const uint64_t launched_ns = row().busy_since_ns;
  EXPECT_GT(launched_ns, passed_ns);
  EXPECT_LE(launched_ns, passed_ns + Gate::kLaunchNs);  // the kernel may have run in the call
  // Behind other work, or when something else began the span: from when that went in.
  gate_->AwaitLaunch(stream_, 1);
  gate_->Launched();
  EXPECT_EQ(row().busy_since_ns, launched_ns);
  g_busy = false;
  usleep(1000);
  gate_->Rest();
  Work(2);
  const uint64_t other_ns = row().busy_since_ns;
  EXPECT_GT(other_ns, launched_ns);
  gate_->Launched();
  gate_->AwaitLaunch(kCaptured, 1);
  gate_->Launched();
  EXPECT_EQ(row().busy_since_ns, other_ns);
}

TEST_F(GateTest, WhatItTakesToAskAboutTheEndIsNotBilled) {
  OpenFor(1000 * kMs);
  gate_->Rest();
  Work(1);
  gate_->SawEnd();
  g_question_us = 3000;
  const uint64_t asks_ns = MonotonicNs();
  gate_->Rest();
  const uint64_t asked_ns = MonotonicNs();
  const ReportPage::Span& span = row().spans[(row().span_count - 1) % ReportPage::kSpans];
  EXPECT_LE(span.end_ns, asked_ns - Gate::kLookNs);
  EXPECT_GE(span.end_ns, asks_ns + 3 * kMs - Gate::kLookNs);  // work may have gone on while a long question was asked
}

TEST_F(GateTest, AnEndThatIsSeenIsToldAtOnce) {
  OpenFor(1000 * kMs);
  g_busy = true;
  Work(1);
  const uint64_t asked_ns = MonotonicNs();
  EXPECT_GT(gate_->Rest(), asked_ns);
  g_busy = false;
  gate_->SawEnd();
  EXPECT_TRUE(gate_->HasNews());
  gate_->Rest();  // right behind the question before, which is too soon for another one
  EXPECT_EQ(row().busy_since_ns, 0u);
  EXPECT_FALSE(gate_->HasNews());
}

TEST_F(GateTest, AnEndThatComesBeforeItIsExpectedIsSeenWhileWorkWaits) {
  OpenFor(10'000 * kMs);
  gate_->Rest();
  g_busy = true;
  Work(1);
  usleep(40'000);
  g_busy = false;
  gate_->Rest();  // such work takes 40 ms, it learns
  int late = 0;
  for (int i = 0; i < 3; ++i) {
    g_busy = true;
    Work(1);
    Close();
    std::thread broker([&] {
      while (row().wants_since_ns == 0) usleep(100);
      g_busy = false;
      const uint64_t end_ns = MonotonicNs();
      while (row().busy_since_ns != 0) usleep(100);
      if (MonotonicNs() > end_ns + 5 * kMs) ++late;
      OpenFor(10'000 * kMs);
    });
    Work(1);
    broker.join();
    g_busy = false;
    gate_->Rest();
  }
  EXPECT_LT(late, 3);
}

TEST_F(GateTest, WorkThatHasWaitedIsNotTakenForDone) {
  Close();
  std::thread broker([&] {
    while (row().wants_since_ns == 0) usleep(1000);
    usleep(3000);  // meanwhile the stream is found to be idle
    OpenFor(1'000 * kMs);
  });
  Work(1);
  broker.join();
  const std::vector<BusyStreams::Use> unfinished = streams_.Unfinished();
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_EQ(unfinished[0].stream, stream_);
  g_busy = true;
  usleep(1000);
  gate_->Rest();
  EXPECT_NE(row().busy_since_ns, 0u);
}

TEST_F(GateTest, CapturedWorkIsNoneAndIsNotAskedFor) {
  Close();
  Work(1, kCaptured);
  EXPECT_EQ(row().launches, 0u);
  gate_->Rest();
  EXPECT_EQ(row().busy_since_ns, 0u);
}

// Nobody may ask a stream that captures.
TEST_F(GateTest, WhatAStreamHadToDoBeforeItCapturesCounts) {
  g_busy = true;
  OpenFor(60'000 * kMs);
  Work(1);
  gate_->BeforeCapture(stream_);
  g_captures.insert(stream_);
  Close();
  for (int i = 0; i < 3; ++i, usleep(1000)) EXPECT_NE(gate_->Rest(), kNoDeadline);
  EXPECT_NE(row().busy_since_ns, 0u);
  g_busy = false;
  while (gate_->Rest() != kNoDeadline) usleep(100);
  EXPECT_EQ(row().busy_since_ns, 0u);
  EXPECT_EQ(g_events, 0);
}

TEST_F(GateTest, WhatAStreamHadToDoBeforeItJoinsACaptureCounts) {
  g_busy = true;
  OpenFor(60'000 * kMs);
  Work(1);
  gate_->BeforeWait(stream_);
  EXPECT_EQ(g_events, 0);  // nothing captures
  const CUstream origin = reinterpret_cast<CUstream>(next_stream_ += 0x100);
  g_busy = false;
  gate_->BeforeCapture(origin);
  g_captures.insert(origin);
  g_busy = true;
  gate_->BeforeWait(stream_);
  EXPECT_EQ(g_events, 1);
  g_captures.insert(stream_);
  for (int i = 0; i < 3; ++i, usleep(1000)) EXPECT_NE(gate_->Rest(), kNoDeadline);
  g_busy = false;
  while (gate_->Rest() != kNoDeadline) usleep(100);
  EXPECT_EQ(row().busy_since_ns, 0u);
}

TEST_F(GateTest, WhatAStreamHadToDoBeforeItCapturedOutlivesIt) {
  g_busy = true;
  OpenFor(60'000 * kMs);
  Work(1);
  gate_->BeforeCapture(stream_);
  g_captures.insert(stream_);
  streams_.Forget(stream_);
  gate_->idle_watch().StreamGoes(stream_);
  for (int i = 0; i < 3; ++i, usleep(1000)) EXPECT_NE(gate_->Rest(), kNoDeadline);
  g_busy = false;
  while (gate_->Rest() != kNoDeadline) usleep(100);
  EXPECT_EQ(row().busy_since_ns, 0u);
  EXPECT_EQ(g_events, 0);
}

// It counts for as long as the stream captures, and nobody can tell what it still does after that of a stream that has gone.
TEST_F(GateTest, WhatAStreamHadToDoBeforeItCapturesCountsWithoutAnEvent) {
  for (std::atomic<bool>* const refused : {&g_no_event, &g_no_record}) {
    *refused = true;
    g_busy = true;
    const CUstream stream = reinterpret_cast<CUstream>(next_stream_ += 0x100);
    OpenFor(60'000 * kMs);
    Work(1, stream);
    gate_->BeforeCapture(stream);
    EXPECT_EQ(g_events, 0);
    g_captures.insert(stream);
    Close();
    g_busy = false;
    for (int i = 0; i < 3; ++i, usleep(1000)) EXPECT_NE(gate_->Rest(), kNoDeadline);
    EXPECT_NE(row().busy_since_ns, 0u);
    streams_.Forget(stream);
    gate_->idle_watch().StreamGoes(stream);
    while (gate_->Rest() != kNoDeadline) usleep(100);
    EXPECT_EQ(row().busy_since_ns, 0u);
    EXPECT_EQ(g_events, 0);
    *refused = false;
  }
}

TEST_F(GateTest, MarksGoWithTheirContext) {
  g_busy = true;
  OpenFor(60'000 * kMs);
  Work(1);
  gate_->BeforeCapture(stream_);
  EXPECT_EQ(g_events, 1);
  gate_->idle_watch().ForgetContext(kContext);
  EXPECT_EQ(g_events, 0);
}

TEST_F(GateTest, AKindIsLearnedAlsoFromAStreamThatIsDestroyed) {
  g_busy = true;
  OpenFor(60'000 * kMs);
  Work(1);
  streams_.Forget(stream_);
  EXPECT_TRUE(gate_->DestroysWhenDone(stream_, kContext));
  usleep(20'000);
  g_busy = false;
  while (gate_->Rest() != kNoDeadline) usleep(100);
  const CUstream other = reinterpret_cast<CUstream>(next_stream_ += 0x100);
  Work(1, other);
  EXPECT_GE(row().queued_ns, 20 * kMs);
}

TEST_F(GateTest, AnArmedGateLetsInSoMuch) {
  Set({GateMode::kArmed, false, 0});
  gate_->Rest();
  // Learned alone: 8 ms.
  g_busy = true;
  Work(1);
  usleep(8000);
  g_busy = false;
  gate_->Rest();
  g_busy = true;
  const uint64_t begin_ns = MonotonicNs();
  for (int i = 0; i < 20; ++i) Work(1);
  // 160 ms of work, of which 50 ms may be queued.
  EXPECT_GE(MonotonicNs() - begin_ns, 60 * kMs);
}

TEST_F(GateTest, WithoutABrokerItGoesByItsSlot) {
  page_.alive_ns = 1;
  page_.rows[0].slot_begin_ns = 20 * kMs;
  page_.rows[0].slot_length_ns = 30 * kMs;
  Close();
  for (int i = 0; i < 5; ++i) {
    Work(1);
    const uint64_t at_ns = MonotonicNs() % (100 * kMs);
    EXPECT_GE(at_ns, 20 * kMs);
    EXPECT_LT(at_ns, 60 * kMs);  // and what a busy machine makes of it
    gate_->Rest();
    usleep(40'000);
  }
}

TEST_F(GateTest, TheEndOfTheSessionEndsAWait) {
  std::atomic<bool> ended{false};
  gate_->SetStop([&] { return ended ? Status(StatusCode::kUnavailable, "over") : Status::Ok(); });
  Close();
  std::thread end([&] {
    usleep(5000);
    ended = true;
  });
  const uint64_t begin_ns = MonotonicNs();
  Work(1);
  end.join();
  EXPECT_LT(MonotonicNs() - begin_ns, 2'000 * kMs);
}

TEST_F(GateTest, AWaitSeldomAsksWhetherTheSessionHasEnded) {
  std::atomic<int> asked{0};
  gate_->SetStop([&] {
    ++asked;
    return Status::Ok();
  });
  OpenFor(10'000 * kMs);
  gate_->Rest();
  g_busy = true;
  Work(1);
  const uint64_t begin_ns = MonotonicNs();
  const int before = g_questions;
  for (int kind = 2; kind < 5; ++kind) Work(kind);  // each waits for its patience
  const uint64_t waited_ns = MonotonicNs() - begin_ns;
  EXPECT_GT(g_questions, before + 10);
  EXPECT_GT(asked, 0);
  EXPECT_LE(static_cast<uint64_t>(asked), waited_ns / Gate::kStopGapNs + 1);
}

TEST_F(GateTest, WhatWentInBeforeItClosedIsReportedAndForgottenWhenItIsFree) {
  g_busy = true;
  Work(1);
  Close();
  gate_->Rest();
  EXPECT_NE(row().busy_since_ns, 0u);
  Set({GateMode::kFree, false, 0});
  EXPECT_TRUE(gate_->HasNews());
  EXPECT_EQ(gate_->Rest(), kNoDeadline);
  EXPECT_EQ(row().busy_since_ns, 0u);
  EXPECT_FALSE(gate_->HasNews());
}

TEST_F(GateTest, WhatHelpersHaveInHandIsWork) {
  OpenFor(1'000 * kMs);
  gate_->Rest();
  Work(1);
  gate_->idle_watch().Away();
  EXPECT_NE(gate_->Rest(), kNoDeadline);
  EXPECT_NE(row().busy_since_ns, 0u);
  gate_->idle_watch().Back();
  usleep(1000);
  gate_->Rest();
  EXPECT_EQ(row().busy_since_ns, 0u);
}

}  // namespace
}  // namespace tessera
