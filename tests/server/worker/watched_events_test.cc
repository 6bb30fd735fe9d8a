// Marks of events that are recorded again, with a driver in which that happens between two instructions.
#include "server/worker/streams/watched_events.h"

#include <gtest/gtest.h>

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

class WatchedEventsTest : public testing::Test {
 protected:
  WatchedEventsTest() {
    after_query = [](CUresult) {};
    query_event = table_.cuEventQuery;
    table_.cuEventQuery = [](CUevent event) {
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

// Nothing stays that would keep the next question from being watched.
TEST_F(WatchedEventsTest, AnEventThatCannotBeWatchedHasNoMark) {
  client_->worker().completion().Stop();
  EXPECT_NE(events().SendMark(event_, 1), CUDA_SUCCESS);
  EXPECT_NE(events().SendMark(event_, 2), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
