#include "server/broker/limit_watch.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

class LimitWatchTest : public testing::Test {
 protected:
  // A second in which it had the GPU for so long. Whether that was too long.
  bool Second(double limit, int64_t had_ns) {
    now_ns_ += kSecondNs;
    billed_ns_ += had_ns;
    return watch_.Look(limit, billed_ns_, now_ns_).has_value();
  }
  int CountSeconds(int count, double limit, int64_t had_ns) {
    int told = 0;
    for (int i = 0; i < count; ++i) told += Second(limit, had_ns) ? 1 : 0;
    return told;
  }

  LimitWatch watch_;
  int64_t now_ns_ = 5 * kSecondNs;
  int64_t billed_ns_ = 7 * kSecondNs;
};

TEST_F(LimitWatchTest, WhoStaysWithinIsNotNamed) {
  EXPECT_EQ(CountSeconds(120, 0.2, kSecondNs / 5), 0);
  EXPECT_EQ(CountSeconds(120, 0.2, kSecondNs * 22 / 100), 0);
}

TEST_F(LimitWatchTest, WhoHasMoreIsNamedOnceInAWindow) {
  EXPECT_EQ(CountSeconds(200, 0.2, kSecondNs / 4), 6);  // from second 28 on
}

TEST_F(LimitWatchTest, MuchAtOnceIsSeenAtOnce) {
  Second(0.05, 0);
  now_ns_ += kSecondNs / 10;
  billed_ns_ += 3 * kSecondNs;
  EXPECT_EQ(watch_.Look(0.05, billed_ns_, now_ns_), 3 * kSecondNs);
}

TEST_F(LimitWatchTest, WhatItHadUnderAnotherLimitWasRight) {
  EXPECT_EQ(CountSeconds(60, 1, kSecondNs), 0);
  EXPECT_EQ(CountSeconds(60, 0.2, kSecondNs / 5), 0);
}

}  // namespace
}  // namespace tessera
