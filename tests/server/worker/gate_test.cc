#include "server/worker/gate.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"
#include "protocol/base/unique_fd.h"
#include "server/worker/busy_streams.h"
#include "server/worker/thread_contexts.h"
#include "tests/server/worker/one_gpu.h"

namespace tessera {
namespace {

constexpr uint64_t kMs = 1'000'000;
const CUstream kCaptured = reinterpret_cast<CUstream>(0x200);

// A device whose streams are busy as long as the test says.
std::atomic<bool> g_busy{false};
std::atomic<int> g_questions{0};

DriverTable MakeDriver() {
  DriverTable table{};
  AddOneGpu(table);
  table.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  table.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  table.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    *status = stream == kCaptured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  table.cuStreamQuery = [](CUstream stream) {
    EXPECT_NE(stream, kCaptured) << "a question ends a capture";
    ++g_questions;
    return g_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  };
  return table;
}

class GateTest : public testing::Test {
 protected:
  GateTest() : driver_(MakeDriver()), contexts_(driver_), event_(eventfd(0, EFD_NONBLOCK)) {
    g_busy = false;
    g_questions = 0;
    page_.row_count = 1;
    std::memset(page_.rows[0].uuid, kOneGpuUuid, sizeof(page_.rows[0].uuid));
    page_.alive_ns = UINT64_MAX;  // nothing here is about a broker that is silent, unless it says so
    gate_ = std::make_unique<Gate>(driver_, contexts_, streams_, GatePages{&page_, &report_, event_.get()});
    Rings();
  }

  void Set(const GateWord& word) {
    page_.rows[0].gate = word.Pack();
    page_.closed_rows = word.mode == GateMode::kFree ? 0 : 1;
    ++page_.changes;
    FutexWakeAll(&page_.changes);
  }
  void OpenFor(uint64_t ns) { Set({GateMode::kMetered, false, MonotonicNs() + ns}); }
  void Close() { Set({GateMode::kMetered, false, 0}); }

  // As a handler does.
  void Work(uint64_t kind) { Work(kind, stream_); }
  void Work(uint64_t kind, CUstream stream) {
    streams_.Touch(stream);
    if (gate_->closed()) gate_->Await(stream, kind);
  }
  uint64_t Rings() {
    uint64_t count = 0;
    return read(event_.get(), &count, sizeof(count)) == sizeof(count) ? count : 0;
  }
  const ReportPage::Row& row() const { return report_.rows[0]; }

  // Another one in each test: a thread remembers the stream that it used last.
  static inline uintptr_t next_stream_ = 0x1000;
  const CUstream stream_ = reinterpret_cast<CUstream>(next_stream_ += 0x100);
  const DriverTable driver_;
  ThreadContexts contexts_;
  BusyStreams streams_;
  GatePage page_{};
  ReportPage report_{};
  const UniqueFd event_;
  std::unique_ptr<Gate> gate_;
};

TEST_F(GateTest, AFreeGateAsksAndTellsNothing) {
  for (int i = 0; i < 100; ++i) Work(1);
  EXPECT_EQ(gate_->Rest(), kNoDeadline);
  EXPECT_EQ(g_questions, 0);
  EXPECT_EQ(Rings(), 0u);
  EXPECT_EQ(row().launches, 0u);
}

TEST_F(GateTest, WhomTheAuditCaughtMayNotGoOn) {
  EXPECT_TRUE(gate_->MayGoOn().ok());
  page_.caught = 1;
  EXPECT_EQ(gate_->MayGoOn().code(), StatusCode::kOverran);
  EXPECT_NE(gate_->MayGoOn().message().find("--audit end"), std::string::npos);
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
