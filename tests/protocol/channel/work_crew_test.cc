// Work that several threads share.
#include "protocol/channel/work_crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tessera {
namespace {

std::thread StartThread(std::function<void()> body) { return std::thread(std::move(body)); }

TEST(WorkCrew, EverythingIsDoneOnceAndOneThreadIsInALane) {
  for (const size_t helpers : {0, 1, 3}) {
    WorkCrew crew(helpers, &StartThread);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller) {
      callers.emplace_back([&] {
        for (size_t round = 0; round < 300; ++round) {
          const size_t count = round % 40;
          std::vector<std::atomic<int>> done(count);
          std::vector<std::atomic<int>> in_lane(helpers + 1);
          crew.ForEach(count, [&](size_t lane, size_t i) {
            EXPECT_EQ(in_lane.at(lane).fetch_add(1), 0);
            ++done[i];
            --in_lane[lane];
          });
          for (const auto& one : done) EXPECT_EQ(one.load(), 1);
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
}

TEST(WorkCrew, HelpersTakePart) {
  WorkCrew crew(1, &StartThread);
  std::atomic<bool> helped{false};
  // The caller's part lasts until the helper has done one.
  crew.ForEach(2, [&](size_t lane, size_t) {
    if (lane == 1) helped = true;
    while (!helped.load()) std::this_thread::yield();
  });
  EXPECT_TRUE(helped.load());
}

// Helpers that have gone to sleep are woken.
TEST(WorkCrew, HelpersThatSleepTakePart) {
  WorkCrew crew(2, &StartThread);
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> helped{false};
    crew.ForEach(2, [&](size_t lane, size_t) {
      if (lane != 0) helped = true;
      while (!helped.load()) std::this_thread::yield();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far longer than they spin; nothing depends on that
  }
}

TEST(WorkCrew, WithoutThreadsTheCallerDoesAll) {
  WorkCrew crew(3, [](std::function<void()>) -> std::thread {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  int done = 0;
  crew.ForEach(10, [&](size_t lane, size_t) {
    EXPECT_EQ(lane, 0u);
    ++done;
  });
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace tessera
