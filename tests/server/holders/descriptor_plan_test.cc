// What a server keeps descriptors for.
#include "server/holders/descriptor_plan.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(DescriptorPlanTest, SessionsAndStrangersKeepTheirs) {
  for (const uint64_t limit : {40, 256, 1024, 4096, 20'000, 1'048'576}) {
    for (const uint64_t sessions : {1, 64, 256, 4096}) {
      const DescriptorPlan plan = DescriptorPlan::Of(limit, sessions);
      EXPECT_GE(plan.waiting, 1u);
      EXPECT_LE(plan.waiting, DescriptorPlan::kWaitingMax);
      const uint64_t rest = limit - 2 * plan.waiting - plan.shares;
      EXPECT_GE(rest, std::min(sessions * DescriptorPlan::kOfSession, limit / 4));
      EXPECT_GE(plan.shares, limit / 4);
    }
  }
}

TEST(DescriptorPlanTest, TwoSessionsCanShareTheirMostWithAUsualLimit) {
  EXPECT_GE(DescriptorPlan::Of(20'000, 256).shares, 3u * 4096);
}

}  // namespace
}  // namespace tessera
