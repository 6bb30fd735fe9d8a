#include "client-stub/process/short_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace tessera {
namespace {

TEST(ShortMutex, LetsInOneAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  ShortMutex mutex;
  int count = 0;
  bool inside = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        ShortLock lock(mutex);
        EXPECT_FALSE(inside);
        inside = true;
        ++count;
        inside = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(ShortMutex, WhoWaitsForASlowHolderSleepsAndGetsIt) {
  ShortMutex mutex;
  std::atomic<bool> waits{false};
  std::atomic<bool> taken{false};
  mutex.lock();
  std::thread waiter([&] {
    waits = true;
    ShortLock lock(mutex);
    taken = true;
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long enough for it to sleep; nothing depends on that
  EXPECT_FALSE(taken);
  mutex.unlock();
  waiter.join();
  EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace tessera
