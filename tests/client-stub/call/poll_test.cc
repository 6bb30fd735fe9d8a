// cuEventQuery and cuStreamQuery with both ends in one process, on the emulator: what a poll loop costs, and that no answer
// is older than what the program already knows.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "client-stub/session/session.h"
#include "protocol/base/clock.h"
#include "tests/client-stub/both_ends.h"
#include "tests/client-stub/gate.h"

namespace tessera {
namespace {

class PollTest : public testing::Test {
 protected:
  void SetUp() override {
    Ends();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&later_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(other_), CUDA_SUCCESS);
    EXPECT_EQ(cuEventDestroy(event_), CUDA_SUCCESS);
    EXPECT_EQ(cuEventDestroy(later_), CUDA_SUCCESS);
  }

  static uint64_t Sent() { return Ends().session().last_sequence(); }
  // Records that `rounds` queries with the same answer cost, beyond the confirmations that their time allows.
  template <typename Query>
  static uint64_t CostOf(int rounds, CUresult answer, Query query) {
    const uint64_t before = Sent();
    const uint64_t start_ns = MonotonicNs();
    for (int i = 0; i < rounds; ++i) EXPECT_EQ(query(), answer);
    const uint64_t confirmations = (MonotonicNs() - start_ns) / PollTable::kConfirmNs;
    return Sent() - before - std::min(confirmations, Sent() - before);
  }

  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent event_ = nullptr, later_ = nullptr;
};

// The first query, one more after the host function's own notice, and some for what else was heard meanwhile.
constexpr uint64_t kFew = 10;

TEST_F(PollTest, ALoopOverAnEventAsksOnce) {
  Gate gate(stream_);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_LE(CostOf(2000, CUDA_ERROR_NOT_READY, [&] { return cuEventQuery(event_); }), kFew);
  gate.Open();
  while (cuEventQuery(event_) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  EXPECT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
}

TEST_F(PollTest, ALoopOverAStreamAsksOnce) {
  Gate gate(stream_);
  EXPECT_LE(CostOf(2000, CUDA_ERROR_NOT_READY, [&] { return cuStreamQuery(stream_); }), kFew);
  gate.Open();
  while (cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
}

TEST_F(PollTest, NewWorkMakesTheAnswerNew) {
  for (int round = 0; round < 50; ++round) {
    Gate gate(stream_);
    ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
    gate.Open();
    while (cuEventQuery(event_) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    while (cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    ASSERT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
  }
}

// After a synchronisation that covers it, an event that was polled must not look unfinished.
TEST_F(PollTest, ASynchronisationOutdatesNotReady) {
  for (int round = 0; round < 300; ++round) {
    Gate gate(stream_);
    ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(later_, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(cuEventQuery(later_), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
    gate.Open();
    switch (round % 3) {
      case 0: ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS); break;
      case 1:  // polling the later event to its end says as much
        while (cuEventQuery(later_) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
        break;
      case 2:  // so does a host function behind it
        std::promise<void> ran;
        ASSERT_EQ(cuLaunchHostFunc(
                      stream_, [](void* p) { static_cast<std::promise<void>*>(p)->set_value(); }, &ran),
                  CUDA_SUCCESS);
        ran.get_future().wait();
        break;
    }
    ASSERT_EQ(cuEventQuery(event_), CUDA_SUCCESS) << round;
    if (round % 3 == 0) {
      ASSERT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS) << round;
    }
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }
}

TEST_F(PollTest, APolledEventCanBeRecordedAgainAndDestroyed) {
  // The second stream is held back by memory: host functions run one after the other.
  CUdeviceptr word = 0;
  ASSERT_EQ(cuMemAlloc(&word, 4), CUDA_SUCCESS);
  for (int round = 0; round < 100; ++round) {
    CUevent event = nullptr;
    ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    Gate first(stream_);
    ASSERT_EQ(cuMemsetD32(word, 0, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);  // which the two streams do not wait for
    ASSERT_EQ(cuStreamWaitValue32(other_, word, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(cuEventRecord(event, other_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    first.Open();
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(cuStreamWriteValue32(stream_, word, 1, 0), CUDA_SUCCESS);
    if (round % 2 == 0) {
      while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    }
    ASSERT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  }
  ASSERT_EQ(cuMemFree(word), CUDA_SUCCESS);
}

TEST_F(PollTest, AFinishedEventIsAskedAboutOnce) {
  const auto costs_one_question = [&] {
    const uint64_t before = Sent();
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
    EXPECT_EQ(Sent(), before + 1);
  };
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  costs_one_question();
  // Another thread records it again: its work is asked about anew.
  std::thread([&] { EXPECT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS); }).join();
  ASSERT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  costs_one_question();
  // So does work that waits for the event: it changes nothing.
  ASSERT_EQ(cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  const uint64_t before = Sent();
  EXPECT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
  EXPECT_EQ(Sent(), before);
  // Never across a capture.
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  costs_one_question();
}

// Two threads: one records, the other asks; what was done must not hide what was recorded since.
TEST_F(PollTest, ARecordByAnotherThreadIsNeverMissed) {
  CUdeviceptr word = 0;
  ASSERT_EQ(cuMemAlloc(&word, 4), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(word, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  std::atomic<bool> stop{false};
  std::thread asks([&] {
    while (!stop) {
      const CUresult result = cuEventQuery(event_);
      EXPECT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
    }
  });
  for (int round = 1; round <= 100; ++round) {
    ASSERT_EQ(cuStreamWaitValue32(stream_, word, static_cast<cuuint32_t>(round), CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY) << round;
    ASSERT_EQ(cuStreamWriteValue32(other_, word, static_cast<cuuint32_t>(round), 0), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventQuery(event_), CUDA_SUCCESS) << round;
  }
  stop = true;
  asks.join();
  ASSERT_EQ(cuMemFree(word), CUDA_SUCCESS);
}

// Device memory is this process's own here: what a stream was given is done when a wait for it returns, however it is told.
TEST_F(PollTest, AWaitIsNeverTooShort) {
  CUdeviceptr word = 0;
  ASSERT_EQ(cuMemAlloc(&word, 4), CUDA_SUCCESS);
  std::atomic<bool> stop{false};
  std::thread asks([&] {
    while (!stop) {
      EXPECT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS);
      while (cuEventQuery(event_) == CUDA_ERROR_NOT_READY && !stop) std::this_thread::yield();
    }
  });
  const auto value = [&] { return __atomic_load_n(reinterpret_cast<unsigned*>(word), __ATOMIC_ACQUIRE); };
  for (unsigned i = 1; i <= 3000; ++i) {
    const CUstream stream = i % 3 == 0 ? nullptr : i % 3 == 1 ? stream_ : other_;
    ASSERT_EQ(cuMemsetD32Async(word, i, 1, stream), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    ASSERT_EQ(value(), i);
    if (stream != other_) {
      ASSERT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    }
  }
  stop = true;
  asks.join();
  ASSERT_EQ(cuMemFree(word), CUDA_SUCCESS);
}

// A graph's event node records without a call that names the event.
TEST_F(PollTest, AGraphLaunchOutdatesDone) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode record = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, event_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  {
    Gate held(stream_);
    ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
    held.Open();
    ASSERT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  }
  // Once the mark has arrived nobody need be asked.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool asked = true;
  while (asked && std::chrono::steady_clock::now() < end) {
    const uint64_t before = Sent();
    asked = cuEventQuery(event_) != CUDA_SUCCESS || Sent() != before;
  }
  EXPECT_FALSE(asked) << "known to be done";
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  const uint64_t launched = Sent();
  cuEventQuery(event_);
  EXPECT_EQ(Sent(), launched + 1) << "the launch may have recorded it";
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
