#include "scheduler/usage_history.h"
#include "tests/support/times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tessera {
namespace {

TEST(UsageHistoryTest, IsExactAtTheEdgesOfItsWindows) {
  UsageHistory history;
  history.Add(0, 100 * kMs, 100 * kMs);
  history.Add(200 * kMs, 300 * kMs, 50 * kMs);  // beside another
  history.Advance(kSecondNs + 25 * kMs);
  EXPECT_EQ(history.UsedNs(Window::kOneSecond), 125 * kMs);
  history.Advance(kSecondNs + 250 * kMs);
  EXPECT_EQ(history.UsedNs(Window::kOneSecond), 25 * kMs);
  EXPECT_EQ(history.UsedNs(Window::kTenSeconds), 150 * kMs);
  history.Advance(10 * kSecondNs + 250 * kMs);
  EXPECT_EQ(history.UsedNs(Window::kTenSeconds), 25 * kMs);
  history.Advance(11 * kSecondNs);
  EXPECT_EQ(history.UsedNs(Window::kTenSeconds), 0);
  EXPECT_EQ(history.spans(), 0u);
}

TEST(UsageHistoryTest, ASpanLongerThanAllWindowsFillsThem) {
  UsageHistory history;
  history.Add(0, 30 * kSecondNs, 30 * kSecondNs);
  history.Advance(30 * kSecondNs);
  EXPECT_EQ(history.UsedNs(Window::kOneSecond), kSecondNs);
  EXPECT_EQ(history.UsedNs(Window::kTenSeconds), 10 * kSecondNs);
}

TEST(UsageHistoryTest, TouchingSpansAreOne) {
  UsageHistory history;
  for (int64_t i = 0; i < 5000; ++i) history.Add(i * kMs, (i + 1) * kMs, kMs);
  history.Advance(5 * kSecondNs);
  EXPECT_EQ(history.spans(), 1u);
  EXPECT_EQ(history.UsedNs(Window::kOneSecond), kSecondNs);
}

// The bound of the header, and the error that joining makes, for spans of all lengths.
TEST(UsageHistoryTest, KeepsItsBoundAndItsExactness) {
  for (const int64_t mean_ns : {int64_t{5'000}, int64_t{100'000}, int64_t{600'000}, 3 * kMs}) {
    std::mt19937_64 random(7);
    const auto drawn = [&] { return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(2 * mean_ns)); };
    UsageHistory history;
    std::vector<UsedSpan> all;
    int64_t at_ns = 0;
    size_t most = 0;
    while (at_ns < 14 * kSecondNs) {
      const int64_t begin_ns = at_ns + drawn();
      at_ns = begin_ns + drawn();
      history.Add(begin_ns, at_ns, at_ns - begin_ns);
      history.Advance(at_ns);
      all.push_back({begin_ns, at_ns, at_ns - begin_ns});
      most = std::max(most, history.spans());
    }
    EXPECT_LE(most, 2u * 1000 + 2 * 900 + 4) << mean_ns;
    for (const Window window : {Window::kOneSecond, Window::kTenSeconds}) {
      int64_t used_ns = 0;
      for (const UsedSpan& span : all)
        used_ns += std::max<int64_t>(0, span.end_ns - std::max(span.begin_ns, at_ns - LengthNs(window)));
      const int64_t grain_ns = window == Window::kOneSecond ? kMs : 10 * kMs;
      EXPECT_LE(std::abs(history.UsedNs(window) - used_ns), grain_ns / 4) << mean_ns;
    }
  }
}

}  // namespace
}  // namespace tessera
