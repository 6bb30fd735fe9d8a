#include "client-stub/managed/page_states.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr uint64_t kMin = PageStates::kFetchPagesMin;
constexpr uint64_t kMax = PageStates::kFetchPagesMax;

TEST(PageStatesTest, KnowsWhetherAnyPageMayBeTouched) {
  PageStates states(10, PageState::kDevice);
  EXPECT_FALSE(states.any_accessible());
  states.Set(PageRun{3, 2}, PageState::kShared);
  EXPECT_TRUE(states.any_accessible());
  states.Set(PageRun{4, 1}, PageState::kHost);
  states.Set(PageRun{3, 1}, PageState::kDevice);
  EXPECT_TRUE(states.any_accessible());
  states.Set(PageRun{4, 1}, PageState::kDevice);
  EXPECT_FALSE(states.any_accessible());
}

TEST(PageStatesTest, FindsRunsOfOneStateWithinBounds) {
  PageStates states(20, PageState::kDevice);
  states.Set(PageRun{2, 3}, PageState::kHost);
  states.Set(PageRun{5, 1}, PageState::kShared);
  states.Set(PageRun{6, 10}, PageState::kHost);
  EXPECT_EQ((PageRun{2, 3}), states.Next(0, 20, PageState::kHost));
  EXPECT_EQ((PageRun{3, 2}), states.Next(3, 20, PageState::kHost));
  EXPECT_EQ((PageRun{6, 2}), states.Next(5, 8, PageState::kHost)) << "cut off at the end asked for";
  EXPECT_TRUE(states.Next(16, 20, PageState::kHost).empty());
  EXPECT_TRUE(states.Next(20, 30, PageState::kDevice).empty());
  EXPECT_EQ((PageRun{16, 4}), states.Next(16, 100, PageState::kDevice)) << "cut off at the end of the block";
}

TEST(PageStatesTest, ALoneTouchFetchesLittleAndAPassFetchesMoreAndMore) {
  PageStates states(100000, PageState::kDevice);
  uint64_t page = 0;
  uint64_t expected = kMin;
  for (int touch = 0; touch < 12; ++touch) {
    const PageRun run = states.Fetch(page, PageState::kDevice);
    EXPECT_EQ((PageRun{page, expected}), run);
    states.Set(run, PageState::kShared);
    page = run.end();
    expected = std::min(2 * expected, kMax);
  }
  EXPECT_EQ(kMin, states.Fetch(90000, PageState::kDevice).count) << "a touch elsewhere begins anew";
}

TEST(PageStatesTest, AnAnnouncedPassIsLargeWhereverItBegins) {
  PageStates states(100000, PageState::kDevice);
  states.ExpectPass();
  EXPECT_EQ((PageRun{kMin * 5, kMax}), states.Fetch(kMin * 5, PageState::kDevice));
}

TEST(PageStatesTest, AFetchHasOnlyPagesOfOneStateAndTheOneTouched) {
  PageStates states(100, PageState::kDevice);
  states.Set(PageRun{17, 1}, PageState::kHost);
  states.Set(PageRun{22, 1}, PageState::kShared);
  EXPECT_EQ((PageRun{18, 4}), states.Fetch(20, PageState::kDevice));
  EXPECT_EQ((PageRun{22, 1}), states.Fetch(22, PageState::kShared));
  EXPECT_EQ((PageRun{96, 4}), states.Fetch(99, PageState::kDevice)) << "the end of the block";
}

TEST(PageStatesTest, TouchesInFallingOrderFetchWholeGroups) {
  PageStates states(10 * kMin, PageState::kDevice);
  EXPECT_EQ((PageRun{9 * kMin, kMin}), states.Fetch(10 * kMin - 1, PageState::kDevice));
}

}  // namespace
}  // namespace tessera
