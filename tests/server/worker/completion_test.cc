#include "server/worker/completion.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>
#include <vector>

#include "tests/server/worker/fake_driver.h"
#include "tests/server/worker/test_client.h"

namespace tessera {
namespace {

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    context_ = driver_.NewContext();
    EXPECT_EQ(worker().SetContext(context_), CUDA_SUCCESS);
  }
  Worker& worker() { return client_.worker(); }
  Completion& completion() { return client_.worker().completion(); }

  // A watch whose result can be waited for.
  std::future<CUresult> Watch(CUstream stream) {
    auto promise = std::make_shared<std::promise<CUresult>>();
    EXPECT_EQ(completion().WhenDone(stream, [promise](CUresult result) { promise->set_value(result); }), CUDA_SUCCESS);
    return promise->get_future();
  }
  static bool Ready(std::future<CUresult>& future, int ms = 10'000) {
    return future.wait_for(std::chrono::milliseconds(ms)) == std::future_status::ready;
  }

  FakeDriver driver_;
  TestClient client_{driver_.table()};
  CUcontext context_;
};

TEST_F(CompletionTest, CallsBackWhenTheWorkIsDoneAndNotBefore) {
  driver_.SetIdle(false);
  const CUstream stream = driver_.NewStream(context_);
  auto done = Watch(stream);
  EXPECT_FALSE(Ready(done, 20));
  EXPECT_EQ(completion().pending(), 1u);
  driver_.FinishWork(stream);
  ASSERT_TRUE(Ready(done));
  EXPECT_EQ(done.get(), CUDA_SUCCESS);
}

TEST_F(CompletionTest, AShortStreamIsNotHeldUpByALongOne) {
  driver_.SetIdle(false);
  const CUstream slow = driver_.NewStream(context_);
  const CUstream fast = driver_.NewStream(context_);
  auto slow_done = Watch(slow);
  EXPECT_FALSE(Ready(slow_done, 20));
  auto fast_done = Watch(fast);
  driver_.FinishWork(fast);
  EXPECT_TRUE(Ready(fast_done));
  EXPECT_FALSE(Ready(slow_done, 0));
  driver_.FinishWork(slow);
  EXPECT_TRUE(Ready(slow_done));
}

TEST_F(CompletionTest, CallsBackInOrderPerStream) {
  driver_.SetIdle(false);
  const CUstream stream = driver_.NewStream(context_);
  constexpr int kWatches = 500;
  std::vector<int> order;  // of the completion thread alone until the latch
  std::latch all(kWatches);
  for (int i = 0; i < kWatches; ++i) {
    ASSERT_EQ(completion().WhenDone(stream,
                                    [&, i](CUresult) {
                                      order.push_back(i);
                                      all.count_down();
                                    }),
              CUDA_SUCCESS);
  }
  driver_.FinishWork(stream);
  all.wait();
  for (int i = 0; i < kWatches; ++i) EXPECT_EQ(order[i], i);
}

TEST_F(CompletionTest, ReusesEvents) {
  const CUstream stream = driver_.NewStream(context_);
  for (int i = 0; i < 200; ++i) {
    auto done = Watch(stream);
    ASSERT_TRUE(Ready(done));
  }
  EXPECT_LE(driver_.events_made(), 3u);
}

TEST_F(CompletionTest, PassesErrorsOnAndDropsTheEvent) {
  driver_.SetIdle(false);
  const CUstream stream = driver_.NewStream(context_);
  auto done = Watch(stream);
  driver_.FinishWork(stream, CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_TRUE(Ready(done));
  EXPECT_EQ(done.get(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(driver_.events_live(), 0u);
}

TEST_F(CompletionTest, AStreamOfAnotherContextGetsAnEventOfThatContext) {
  const CUcontext other = driver_.NewContext();
  const CUstream stream = driver_.NewStream(other);
  auto done = Watch(stream);  // the fake refuses to record an event of another context
  ASSERT_TRUE(Ready(done));
  EXPECT_EQ(done.get(), CUDA_SUCCESS);
  EXPECT_EQ(FakeDriver::Current(), context_);  // put back
}

TEST_F(CompletionTest, SpecialStreamsMeanTheCurrentContext) {
  auto done = Watch(nullptr);
  EXPECT_TRUE(Ready(done));
  ASSERT_EQ(worker().SetContext(CUcontext(nullptr)), CUDA_SUCCESS);
  EXPECT_EQ(completion().WhenDone(nullptr, [](CUresult) { ADD_FAILURE(); }), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(CompletionTest, AnUnknownStreamIsTheDriversVerdictAndNoCallback) {
  EXPECT_EQ(completion().WhenDone(reinterpret_cast<CUstream>(0x999), [](CUresult) { ADD_FAILURE(); }), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(completion().pending(), 0u);
}

TEST_F(CompletionTest, AfterEventRunsBehindTheWatchesOfThatEvent) {
  driver_.SetIdle(false);
  const CUstream stream = driver_.NewStream(context_);
  CUevent event = nullptr;
  ASSERT_EQ(driver_.table().cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.table().cuEventRecord(event, stream), CUDA_SUCCESS);
  std::promise<CUresult> watched;
  std::promise<CUresult> destroyed;
  auto watched_future = watched.get_future();
  auto destroyed_future = destroyed.get_future();
  ASSERT_EQ(completion().WhenEventDone(context_, event, [&](CUresult result) { watched.set_value(result); }), CUDA_SUCCESS);
  ASSERT_EQ(completion().AfterEvent(context_, event, [&] { destroyed.set_value(driver_.table().cuEventDestroy_v2(event)); }),
            CUDA_SUCCESS);
  EXPECT_FALSE(Ready(destroyed_future, 20));
  driver_.FinishWork(stream);
  ASSERT_TRUE(Ready(destroyed_future));
  EXPECT_TRUE(Ready(watched_future, 0));
  EXPECT_EQ(destroyed_future.get(), CUDA_SUCCESS);
}

TEST_F(CompletionTest, DrainWaitsForItsContextAloneAndDropsItsEvents) {
  const CUcontext other = driver_.NewContext();
  driver_.SetIdle(false);
  const CUstream mine = driver_.NewStream(context_);
  const CUstream theirs = driver_.NewStream(other);
  auto mine_done = Watch(mine);
  auto theirs_done = Watch(theirs);
  std::future<bool> drained = std::async(std::launch::async, [&] { return completion().DrainContext(context_); });
  EXPECT_EQ(drained.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  driver_.FinishWork(mine);
  ASSERT_EQ(drained.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(drained.get());
  EXPECT_TRUE(Ready(mine_done, 0));
  EXPECT_EQ(driver_.events_live(), 1u);  // the other context's
  driver_.FinishWork(theirs);
  EXPECT_TRUE(Ready(theirs_done));
}

// The test's thread is the executor here.
class ExecutorsWatch : public CompletionTest {
 protected:
  ExecutorsWatch() {
    driver_.SetIdle(false);
    own_.BeginExecutor();
  }
  CUresult WhenDone(CUstream stream, std::vector<int>* order, int number) {
    return own_.WhenDone(stream, [order, number](CUresult) { order->push_back(number); });
  }

  Completion own_{client_.worker().driver(), client_.worker().contexts(), client_.worker().done_words()};
};

TEST_F(ExecutorsWatch, IsAnsweredByTheExecutorItself) {
  const CUstream stream = driver_.NewStream(context_);
  std::thread::id called_on;
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult) { called_on = std::this_thread::get_id(); }), CUDA_SUCCESS);
  driver_.FinishWork(stream);
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kDone);
  EXPECT_EQ(called_on, std::this_thread::get_id());
  EXPECT_EQ(own_.pending(), 0u);
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kNone);
}

TEST_F(ExecutorsWatch, IsNewsToTheExecutorWhereTheCompletionThreadAnswers) {
  std::atomic<int> told{0};
  own_.OnEnd([&] { ++told; });
  const CUstream stream = driver_.NewStream(context_);
  ASSERT_EQ(own_.WhenDone(stream, [](CUresult) {}), CUDA_SUCCESS);
  driver_.FinishWork(stream);
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kDone);
  EXPECT_EQ(told, 0);
  const CUstream other = driver_.NewStream(context_);
  ASSERT_EQ(own_.WhenDone(other, [](CUresult) {}), CUDA_SUCCESS);
  own_.GiveOwn();
  EXPECT_EQ(told, 0);
  driver_.FinishWork(other);
  while (told == 0) std::this_thread::yield();
  EXPECT_EQ(told, 1);
}

TEST_F(ExecutorsWatch, GoesToTheCompletionThreadWithTheNextRecord) {
  const CUstream stream = driver_.NewStream(context_);
  std::promise<std::thread::id> called_on;
  auto future = called_on.get_future();
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult) { called_on.set_value(std::this_thread::get_id()); }), CUDA_SUCCESS);
  own_.GiveOwn();
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kNone);
  driver_.FinishWork(stream);
  ASSERT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_NE(future.get(), std::this_thread::get_id());
}

TEST_F(ExecutorsWatch, GrowsOldAndIsStillAnswered) {
  const CUstream stream = driver_.NewStream(context_);
  int called = 0;
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult) { ++called; }), CUDA_SUCCESS);
  while (own_.PollOwn() == Completion::Own::kYoung) {
  }
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kOld);
  driver_.FinishWork(stream);
  while (own_.PollOwn() == Completion::Own::kOld) {
  }
  EXPECT_EQ(called, 1);
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kNone);
}

TEST_F(ExecutorsWatch, IsFollowedByLaterOnesOfItsStream) {
  const CUstream stream = driver_.NewStream(context_);
  std::vector<int> order;  // of the completion thread alone until the last callback
  std::promise<void> last;
  auto future = last.get_future();
  ASSERT_EQ(WhenDone(stream, &order, 1), CUDA_SUCCESS);
  ASSERT_EQ(WhenDone(stream, &order, 2), CUDA_SUCCESS);
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult) { last.set_value(); }), CUDA_SUCCESS);
  driver_.FinishWork(stream);
  ASSERT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(ExecutorsWatch, AnEventIsDestroyedBehindItByAnotherThread) {
  const CUstream stream = driver_.NewStream(context_);
  CUevent event = nullptr;
  ASSERT_EQ(driver_.table().cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.table().cuEventRecord(event, stream), CUDA_SUCCESS);
  std::promise<CUresult> watched, destroyed;
  auto watched_future = watched.get_future();
  auto destroyed_future = destroyed.get_future();
  ASSERT_EQ(own_.WhenEventDone(context_, event, [&](CUresult result) { watched.set_value(result); }), CUDA_SUCCESS);
  std::thread([&] {
    EXPECT_EQ(own_.AfterEvent(context_, event, [&] { destroyed.set_value(driver_.table().cuEventDestroy_v2(event)); }),
              CUDA_SUCCESS);
  }).join();
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kNone);  // nobody but the completion thread asks about it now
  EXPECT_EQ(destroyed_future.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  driver_.FinishWork(stream);
  ASSERT_EQ(destroyed_future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(watched_future.wait_for(std::chrono::milliseconds(0)), std::future_status::ready);
}

TEST_F(ExecutorsWatch, IsDrainedWithItsContext) {
  const CUstream stream = driver_.NewStream(context_);
  std::atomic<bool> called{false};
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult) { called = true; }), CUDA_SUCCESS);
  std::future<bool> drained = std::async(std::launch::async, [&] { return own_.DrainContext(context_); });
  EXPECT_EQ(drained.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  driver_.FinishWork(stream);
  ASSERT_EQ(drained.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(drained.get());
  EXPECT_TRUE(called);
}

TEST_F(ExecutorsWatch, IsDroppedByStop) {
  const CUstream stream = driver_.NewStream(context_);
  auto owned = std::make_shared<int>(0);
  ASSERT_EQ(own_.WhenDone(stream, [owned](CUresult) { ADD_FAILURE(); }), CUDA_SUCCESS);
  own_.Stop();
  EXPECT_EQ(owned.use_count(), 1);
  driver_.FinishWork(stream);
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kNone);
}

// Where streams write words, the event tells of failures alone.
class ExecutorsWord : public ExecutorsWatch {
 protected:
  ExecutorsWord() {
    driver_.SetWords();
    worker().done_words().BeginContext(context_);
  }
};

TEST_F(ExecutorsWord, TellsBeforeTheEventDoes) {
  const CUstream stream = driver_.NewStream(context_);
  int called = 0;
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult result) { called += result == CUDA_SUCCESS; }), CUDA_SUCCESS);
  EXPECT_EQ(called, 0);
  const size_t queries = driver_.queries();
  driver_.WriteWords();
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kDone);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(driver_.queries(), queries);  // nobody had to ask
}

// To the driver the stream is idle when the event is done, not the word.
TEST_F(ExecutorsWord, SettlesWithTheEvent) {
  const CUstream stream = driver_.NewStream(context_);
  EXPECT_FALSE(own_.Settle());
  ASSERT_EQ(own_.WhenDone(stream, [](CUresult) {}), CUDA_SUCCESS);
  EXPECT_FALSE(own_.Settle());  // nothing was told
  driver_.WriteWords();
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kDone);
  std::atomic<bool> settled{false};
  const size_t queries = driver_.queries();
  std::thread settling([&] { EXPECT_TRUE(own_.Settle()); });
  while (driver_.queries() == queries) std::this_thread::yield();
  driver_.FinishWork(stream);
  settling.join();
  EXPECT_FALSE(own_.Settle());
}

TEST_F(ExecutorsWord, DoesNotWaitForAnEventThatNeverComes) {
  const CUstream stream = driver_.NewStream(context_);
  ASSERT_EQ(own_.WhenDone(stream, [](CUresult) {}), CUDA_SUCCESS);
  driver_.WriteWords();
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kDone);
  EXPECT_TRUE(own_.Settle());
}

TEST_F(ExecutorsWord, KeepsOneEventOfAStreamAndSettlesWhenThereAreMany) {
  for (int i = 0; i < 100; ++i) {
    const CUstream stream = driver_.NewStream(context_);
    for (int wait = 0; wait < 3; ++wait) {
      driver_.EnqueueWork(stream);
      ASSERT_EQ(own_.WhenDone(stream, [](CUresult) {}), CUDA_SUCCESS);
      driver_.WriteWords();
      EXPECT_EQ(own_.PollOwn(), Completion::Own::kDone);
      driver_.FinishWork(stream);
    }
  }
  EXPECT_LT(driver_.events_made(), 40u);
}

// Nothing of a context is left that is about to end.
TEST_F(ExecutorsWord, GoesWithItsContext) {
  const CUstream stream = driver_.NewStream(context_);
  ASSERT_EQ(own_.WhenDone(stream, [](CUresult) {}), CUDA_SUCCESS);
  driver_.WriteWords();
  EXPECT_EQ(own_.PollOwn(), Completion::Own::kDone);
  driver_.FinishWork(stream);
  EXPECT_TRUE(own_.DrainContext(context_));
  EXPECT_EQ(driver_.events_live(), 0u);
  EXPECT_FALSE(own_.Settle());
}

// What is idle is answered without a word, an event or a wait.
TEST_F(ExecutorsWord, AnIdleStreamNeedsNone) {
  driver_.SetIdle(true);
  const CUstream stream = driver_.NewStream(context_);
  int called = 0;
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult result) { called += result == CUDA_SUCCESS; }), CUDA_SUCCESS);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(driver_.events_made(), 0u);
}

// An event on it would wait for the default stream.
TEST_F(ExecutorsWord, AStreamThatWaitsForTheDefaultStreamIsNotIdle) {
  const CUstream stream = driver_.NewBlockingStream(context_);
  driver_.FinishWork(stream);
  int called = 0;
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult) { ++called; }), CUDA_SUCCESS);
  EXPECT_EQ(called, 0);
  driver_.FinishWork(stream);
  while (own_.PollOwn() != Completion::Own::kNone || own_.pending() != 0) std::this_thread::yield();
  EXPECT_EQ(called, 1);
  EXPECT_EQ(driver_.events_made(), 1u);
}

TEST_F(ExecutorsWord, OfAnEarlierWaitDoesNotTell) {
  const CUstream slow = driver_.NewStream(context_);
  const CUstream stream = driver_.NewStream(context_);
  std::promise<CUresult> slow_done;
  auto future = slow_done.get_future();
  ASSERT_EQ(own_.WhenDone(slow, [&](CUresult result) { slow_done.set_value(result); }), CUDA_SUCCESS);
  own_.GiveOwn();
  driver_.WriteWords();  // the earlier stream's, so the word is that of another wait
  std::vector<int> order;
  driver_.FinishWork(slow);
  ASSERT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  while (own_.pending() != 0) std::this_thread::yield();
  ASSERT_EQ(WhenDone(stream, &order, 1), CUDA_SUCCESS);
  own_.PollOwn();
  EXPECT_TRUE(order.empty());
  driver_.FinishWork(stream);
  while (own_.PollOwn() != Completion::Own::kNone || own_.pending() != 0) std::this_thread::yield();
  EXPECT_EQ(order, std::vector<int>{1});
}

TEST_F(ExecutorsWord, OfWorkThatFailedNeverComes) {
  const CUstream stream = driver_.NewStream(context_);
  std::promise<CUresult> done;
  auto future = done.get_future();
  ASSERT_EQ(own_.WhenDone(stream, [&](CUresult result) { done.set_value(result); }), CUDA_SUCCESS);
  driver_.FinishWork(stream, CUDA_ERROR_ILLEGAL_ADDRESS);
  while (own_.PollOwn() != Completion::Own::kNone) {
  }
  ASSERT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(future.get(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(CompletionTest, StopDropsWhatIsPending) {
  driver_.SetIdle(false);
  const CUstream stream = driver_.NewStream(context_);
  auto owned = std::make_shared<int>(0);
  ASSERT_EQ(completion().WhenDone(stream, [owned](CUresult) { ADD_FAILURE(); }), CUDA_SUCCESS);
  completion().Stop();
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_EQ(completion().WhenDone(stream, [](CUresult) { ADD_FAILURE(); }), CUDA_ERROR_DEINITIALIZED);
  EXPECT_FALSE(completion().DrainContext(context_));
}

}  // namespace
}  // namespace tessera
