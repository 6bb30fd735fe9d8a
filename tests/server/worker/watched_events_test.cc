// Marks of events that are recorded again, with a driver in which that happens between two instructions.
#include "server/worker/streams/watched_events.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "protocol/wire/record.h"
#include "server/worker/completion.h"
#include "tests/server/worker/fake_driver.h"
#include "tests/server/worker/test_client.h"

namespace tessera {
namespace {

std::function<void(CUresult)> after_query;  // on the thread that asked, before it hears the answer
decltype(DriverTable::cuEventQuery) query_event = nullptr;
std::atomic<CUevent> captured;  // recorded in a capture last
std::atomic<int> captured_asked;
CUstream capturing = nullptr;
CUstream waiting = nullptr;  // waits for an event

class WatchedEventsTest : public testing::Test {
 protected:
  WatchedEventsTest() {
    after_query = [](CUresult) {};
    query_event = table_.cuEventQuery;
    captured = nullptr;
    captured_asked = 0;
    capturing = waiting = nullptr;
    table_.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
      *status = stream == capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
      return CUDA_SUCCESS;
    };
    table_.cuStreamWaitEvent = [](CUstream stream, CUevent, unsigned) {
      waiting = stream;
      return CUDA_SUCCESS;
    };
    table_.cuEventQuery = [](CUevent event) {
      captured_asked += event == captured ? 1 : 0;
      const CUresult result = query_event(event);
      after_query(result);
      return result;
    };
    client_.emplace(table_);
    context_ = driver_.NewContext();
    EXPECT_EQ(client_->worker().SetContext(context_), CUDA_SUCCESS);
    stream_ = driver_.NewStream(context_);
    other_ = driver_.NewStream(context_);
    driver_.SetIdle(false);
    EXPECT_EQ(table_.cuEventCreate(&event_, 0), CUDA_SUCCESS);
    EXPECT_EQ(table_.cuEventRecord(event_, stream_), CUDA_SUCCESS);
  }
  WatchedEvents& events() { return client_->worker().parts().watched_events(); }
  uint64_t NextMark(int timeout_ms = 10'000) {
    const std::optional<TestReply> reply = client_->Next(timeout_ms);
    return reply ? reply->header.extra : 0;
  }
  // `then`, once, when the event is found done.
  void WhenFoundDone(std::function<void()> then) {
    after_query = [then = std::move(then), once = false](CUresult result) mutable {
      if (result == CUDA_SUCCESS && !std::exchange(once, true)) then();
    };
  }

  // The event is recorded in another stream just after it was found done, and `then` follows.
  void RecordAgainWhenFoundDone(std::function<void()> then) {
    WhenFoundDone([this, then = std::move(then)] {
      EXPECT_EQ(table_.cuEventRecord(event_, other_), CUDA_SUCCESS);
      EXPECT_EQ(client_->worker().SetContext(context_), CUDA_SUCCESS);
      then();
    });
    EXPECT_EQ(events().SendMark(event_, 1), CUDA_SUCCESS);
  }

  FakeDriver driver_;
  DriverTable table_ = driver_.table();
  std::optional<TestClient> client_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent event_ = nullptr;
};

TEST_F(WatchedEventsTest, AMarkComesWhenTheEventIsDone) {
  ASSERT_EQ(events().SendMark(event_, 1), CUDA_SUCCESS);
  EXPECT_EQ(NextMark(20), 0u);
  driver_.FinishWork(stream_);
  EXPECT_EQ(NextMark(), 1u);
}

// What was found done is the record before.
TEST_F(WatchedEventsTest, AMarkOfANewRecordWaitsForThatOne) {
  RecordAgainWhenFoundDone([&] { EXPECT_EQ(events().SendMark(event_, 2), CUDA_SUCCESS); });
  driver_.FinishWork(stream_);
  EXPECT_EQ(NextMark(100), 0u);
  driver_.FinishWork(other_);
  EXPECT_EQ(NextMark(), 2u);
}

TEST_F(WatchedEventsTest, AnEventThatIsDestroyedMeanwhileIsAskedNoMore) {
  const size_t live = driver_.events_live();
  RecordAgainWhenFoundDone([&] { EXPECT_EQ(events().Destroy(event_), CUDA_SUCCESS); });
  driver_.FinishWork(stream_);
  while (driver_.events_live() == live) std::this_thread::yield();
  EXPECT_EQ(NextMark(100), 0u);
}

// A question about a record in a capture would end the capture.
TEST_F(WatchedEventsTest, AnEventThatACaptureRecordsIsAskedNoMore) {
  std::atomic<CUresult> waited{CUDA_ERROR_NOT_READY};
  ASSERT_EQ(events().SendMark(event_, 1), CUDA_SUCCESS);
  ASSERT_EQ(events().Wait(event_, [&](CUresult result) { waited = result; }), CUDA_SUCCESS);
  capturing = other_;
  events().BeforeRecord(event_, other_);
  captured = event_;
  EXPECT_EQ(NextMark(), 1u);  // with an error, so that nobody takes it for an end
  EXPECT_EQ(waited, CUDA_ERROR_NOT_READY);
  driver_.FinishWork(waiting);
  while (waited == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  EXPECT_EQ(waited, CUDA_SUCCESS);
  EXPECT_EQ(captured_asked, 0);
}

// Nothing stays that would keep the next question from being watched.
TEST_F(WatchedEventsTest, AnEventThatCannotBeWatchedHasNoMark) {
  client_->worker().completion().Stop();
  EXPECT_NE(events().SendMark(event_, 1), CUDA_SUCCESS);
  EXPECT_NE(events().SendMark(event_, 2), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
