#include "server/broker/call_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace tessera {
namespace {

bool IsReadable(int fd, int timeout_ms = 0) {
  pollfd ready{fd, POLLIN, 0};
  return poll(&ready, 1, timeout_ms) == 1;
}

TEST(CallQueue, CallsComeOneByOneAndInOrder) {
  const auto queue = CallQueue::Make().value();
  EXPECT_FALSE(IsReadable(queue->call_fd()));
  EXPECT_FALSE(queue->TakeOne());
  EXPECT_TRUE(queue->Push(1, {.name = "a"}));
  EXPECT_TRUE(queue->Push(2, {.name = "b"}));
  EXPECT_EQ(queue->TakeOne()->second.name, "a");
  EXPECT_TRUE(IsReadable(queue->call_fd()));
  EXPECT_EQ(queue->TakeOne()->first, 2u);
  EXPECT_FALSE(IsReadable(queue->call_fd()));
}

TEST(CallQueue, NoMoreThanSoManyWait) {
  const auto queue = CallQueue::Make().value();
  for (size_t i = 0; i < CallQueue::kCallsMax; ++i) EXPECT_TRUE(queue->Push(i, {}));
  EXPECT_FALSE(queue->Push(0, {}));
  EXPECT_TRUE(queue->TakeOne());
  EXPECT_TRUE(queue->Push(0, {}));
}

TEST(CallQueue, WhatIsPublishedIsTheLastState) {
  const auto queue = CallQueue::Make().value();
  EXPECT_FALSE(queue->watched());
  queue->Watch(true);
  EXPECT_TRUE(queue->watched());
  EXPECT_EQ(queue->published(), nullptr);
  queue->Publish(std::make_shared<const std::vector<ShownVgpu>>(1));
  queue->Publish(std::make_shared<const std::vector<ShownVgpu>>(2));
  EXPECT_TRUE(IsReadable(queue->answer_fd()));
  EXPECT_TRUE(queue->TakeAnswers().empty());
  EXPECT_FALSE(IsReadable(queue->answer_fd()));
  EXPECT_EQ(queue->published()->size(), 2u);
  queue->Watch(false);
  EXPECT_FALSE(queue->watched());
}

TEST(CallQueue, EveryCallOfEveryThreadIsAnsweredOnce) {
  constexpr uint64_t kCalls = 500;
  const auto queue = CallQueue::Make().value();
  std::thread broker([&] {
    for (uint64_t taken = 0; taken < 2 * kCalls;) {
      if (!IsReadable(queue->call_fd(), 10'000)) return;
      while (const auto call = queue->TakeOne()) {
        queue->Answer(call->first, {.sentence = call->second.name});
        ++taken;
      }
    }
  });
  const auto push = [&](uint64_t first) {
    for (uint64_t i = first; i < first + kCalls; ++i) {
      while (!queue->Push(i, {.name = std::to_string(i)})) std::this_thread::yield();
    }
  };
  std::thread one(push, 0), two(push, kCalls);
  std::vector<int> answered(2 * kCalls);
  for (uint64_t count = 0; count < 2 * kCalls;) {
    ASSERT_TRUE(IsReadable(queue->answer_fd(), 10'000));
    for (const auto& [number, answer] : queue->TakeAnswers()) {
      EXPECT_EQ(answer.sentence, std::to_string(number));
      ++answered[number];
      ++count;
    }
  }
  one.join();
  two.join();
  broker.join();
  EXPECT_EQ(answered, std::vector<int>(2 * kCalls, 1));
}

}  // namespace
}  // namespace tessera
