// A thread that looks as long as there is something to look for.
#include "protocol/memory/look_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

namespace tessera {
namespace {

constexpr std::chrono::seconds kLongest(10);

class LookThreadTest : public testing::Test {
 protected:
  // Waits for so many looks in all.
  bool Looked(int count) {
    const auto end = std::chrono::steady_clock::now() + kLongest;
    while (looks_ < count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return looks_ >= count;
  }

  std::atomic<int> started_{0};
  std::atomic<bool> wanted_{false};
  std::atomic<int> looks_{0};
  std::atomic<int> until_{0};  // looks after which nothing is wanted; 0: none
  LookThread thread_{[this](std::function<void()> body) {
                       ++started_;
                       return std::thread(std::move(body));
                     },
                     [this] { return wanted_.load(); },
                     [this] {
                       if (++looks_ == until_) wanted_ = false;
                     }};
};

TEST_F(LookThreadTest, LooksWhileItIsWantedAndAgainWhenItIsWoken) {
  for (const int until : {3, 5, 9}) {
    until_ = until;
    wanted_ = true;
    thread_.Wake();
    EXPECT_TRUE(Looked(until));
  }
  thread_.Stop();
  EXPECT_EQ(looks_, 9);
  EXPECT_EQ(started_, 1);
}

TEST_F(LookThreadTest, StopsWhileItLooksAndStaysStopped) {
  wanted_ = true;
  thread_.Wake();
  EXPECT_TRUE(Looked(2));
  thread_.Stop();
  thread_.Stop();
  const int looks = looks_;
  thread_.Wake();
  EXPECT_EQ(looks_, looks);
  EXPECT_EQ(started_, 1);
}

TEST_F(LookThreadTest, WithoutAWakeThereIsNoThread) {
  wanted_ = true;
  thread_.Stop();
  EXPECT_EQ(started_, 0);
}

}  // namespace
}  // namespace tessera
