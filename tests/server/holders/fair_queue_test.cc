// Turns between holders.
#include "server/holders/fair_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace tessera {
namespace {

const auto kAll = [](const std::string&) { return true; };

TEST(FairQueueTest, HoldersTakeTurnsAndEachKeepsItsOrder) {
  FairQueue<int> queue;
  for (int i = 0; i < 4; ++i) queue.Push("a", i);
  queue.Push("b", 10);
  queue.Push("c", 20);
  queue.Push("c", 21);
  std::vector<int> order;
  while (const std::optional<int> next = queue.Pop(kAll)) order.push_back(*next);
  EXPECT_EQ(order, (std::vector<int>{0, 10, 20, 1, 21, 2, 3}));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, WhoMayNotIsPassedOverAndKeepsItsTurn) {
  FairQueue<std::unique_ptr<int>> queue;
  queue.Push("a", std::make_unique<int>(1));
  queue.Push("b", std::make_unique<int>(2));
  queue.Push("b", std::make_unique<int>(3));
  EXPECT_EQ(**queue.Pop([](const std::string& holder) { return holder == "b"; }), 2);
  EXPECT_FALSE(queue.Pop([](const std::string&) { return false; }));
  EXPECT_EQ(**queue.Pop(kAll), 1);
  EXPECT_EQ(queue.CountOf("b"), 1u);
  EXPECT_EQ(queue.CountOf("a"), 0u);
}

TEST(FairQueueTest, WhatIsDroppedLeavesNoEmptyLine) {
  FairQueue<int> queue;
  for (int i = 0; i < 10; ++i) queue.Push(i % 2 == 0 ? "even" : "odd", i);
  queue.DropIf([](int item) { return item % 2 == 0 || item > 5; });
  EXPECT_EQ(queue.CountOf("even"), 0u);
  EXPECT_EQ(queue.CountOf("odd"), 3u);
  int sum = 0;
  queue.ForEach([&](const std::string& holder, int item) {
    EXPECT_EQ(holder, "odd");
    sum += item;
  });
  EXPECT_EQ(sum, 1 + 3 + 5);
}

// However many others have, one that comes waits for one of each of them.
TEST(FairQueueTest, NobodyWaitsForAnothersCrowd) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    FairQueue<int> queue;
    const int holders = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i < holders; ++i) {
      for (unsigned j = 0; j <= random() % 128; ++j) queue.Push(std::to_string(i), i);
    }
    queue.Push("new", 99);
    int before = 0;
    while (queue.Pop(kAll) != 99) ++before;
    EXPECT_LE(before, holders);
  }
}

}  // namespace
}  // namespace tessera
