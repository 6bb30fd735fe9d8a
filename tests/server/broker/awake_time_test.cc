#include "server/broker/awake_time.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr int64_t kStartNs = 1'000'000'000;

TEST(AwakeTime, IsAroundWhatIsExpected) {
  AwakeTime awake(16);
  awake.Expect(kStartNs + 1'000'000, kStartNs);
  EXPECT_EQ(awake.BeginNs(), kStartNs + 1'000'000 - AwakeTime::kBeforeNs);
  EXPECT_EQ(awake.EndNs(), kStartNs + 1'000'000 + AwakeTime::kAfterNs);
  // What does not come is not waited for any longer.
  awake.Expect(kStartNs + 1'000'000, kStartNs + 1'000'000 + AwakeTime::kAfterNs);
  EXPECT_EQ(awake.BeginNs(), INT64_MAX);
  EXPECT_EQ(awake.EndNs(), 0);
  awake.Expect(INT64_MAX, kStartNs);
  EXPECT_EQ(awake.BeginNs(), INT64_MAX);
}

TEST(AwakeTime, IsNoneWhereThereAreFewCores) {
  AwakeTime awake(AwakeTime::kCoresMin - 1);
  awake.Expect(kStartNs + 1'000'000, kStartNs);
  EXPECT_EQ(awake.BeginNs(), INT64_MAX);
  EXPECT_EQ(awake.EndNs(), 0);
}

TEST(AwakeTime, IsASmallPartOfAllTime) {
  AwakeTime awake(16);
  constexpr int64_t kPassesNs = 10'000'000'000, kStepNs = 200'000;
  int64_t spent_ns = 0;
  for (int64_t now_ns = kStartNs; now_ns < kStartNs + kPassesNs; now_ns += kStepNs) {
    awake.Expect(now_ns, now_ns);
    if (awake.EndNs() == 0) continue;
    awake.Spent(kStepNs);
    spent_ns += kStepNs;
  }
  EXPECT_GT(spent_ns, kPassesNs / AwakeTime::kShare / 2);
  EXPECT_LE(spent_ns, kPassesNs / AwakeTime::kShare + AwakeTime::kSavedMaxNs + kStepNs);
}

}  // namespace
}  // namespace tessera
