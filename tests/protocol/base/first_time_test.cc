#include "protocol/base/first_time.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

TEST(FirstTime, IsOnceForEach) {
  EXPECT_TRUE(FirstTime("first_time_test: one"));
  EXPECT_TRUE(FirstTime("first_time_test: another"));
  EXPECT_FALSE(FirstTime("first_time_test: one"));
  // By what it says, not by where it lies; and what was asked about may be gone.
  EXPECT_TRUE(FirstTime(std::string("first_time_test: a third")));
  EXPECT_FALSE(FirstTime(std::string("first_time_test: ") + "a third"));
}

TEST(FirstTime, IsOneThreads) {
  std::atomic<int> said{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&said] { said += FirstTime("first_time_test: by several"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(said, 1);
}

}  // namespace
}  // namespace tessera
