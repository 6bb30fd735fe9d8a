#include "server/worker/helper_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace tessera {
namespace {

TEST(HelperPool, RunsATaskWhileAnotherBlocks) {
  HelperPool pool;
  std::latch blocked(1);
  std::latch second_done(1);
  ASSERT_TRUE(pool.Run([&] { blocked.wait(); }));
  ASSERT_TRUE(pool.Run([&] { second_done.count_down(); }));
  second_done.wait();  // would hang if tasks waited for each other
  blocked.count_down();
}

TEST(HelperPool, RunsEverythingBeyondTheThreadLimit) {
  HelperPool pool;
  constexpr int kTasks = 4 * HelperPool::kHelpersMax;
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::latch done(kTasks);
  std::latch all_helpers_busy(HelperPool::kHelpersMax);
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(pool.Run([&, i] {
      const int now = ++running;
      int seen = most.load();
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
      if (i < static_cast<int>(HelperPool::kHelpersMax)) all_helpers_busy.arrive_and_wait();
      --running;
      done.count_down();
    }));
  }
  done.wait();
  EXPECT_EQ(most.load(), static_cast<int>(HelperPool::kHelpersMax));
}

TEST(HelperPool, StopFinishesTheTaskInHandAndRefusesNewOnes) {
  HelperPool pool;
  std::atomic<bool> finished{false};
  std::latch started(1);
  std::latch go(1);
  ASSERT_TRUE(pool.Run([&] {
    started.count_down();
    go.wait();
    finished = true;
  }));
  started.wait();
  std::thread stopper([&] { pool.Stop(); });
  go.count_down();
  stopper.join();
  EXPECT_TRUE(finished);
  EXPECT_FALSE(pool.Run([] { ADD_FAILURE() << "a stopped pool ran a task"; }));
}

}  // namespace
}  // namespace tessera
