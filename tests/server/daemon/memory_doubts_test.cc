#include "server/daemon/readings/memory_doubts.h"
#include "tests/support/sizes.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr uint64_t kMore = MemoryDoubts::kMoreBytes;
using Rows = std::vector<SeenMessage::Row>;

// Session 1 is the one that is looked at, on GPU 1. Session 2 says what it uses.
class MemoryDoubtsTest : public testing::Test {
 protected:
  static ProcessFigures Figures(uint64_t used) { return {true, {{1, 1, 50, used}, {2, 0, 50, 3 * kMiB}}}; }
  Rows Pass(uint64_t held, const ProcessFigures& figures) {
    doubts_.Hear({1, {{1, 1, 0, 0, held}, {2, 0, 0, 0, 3 * kMiB}}});
    return doubts_.Compare(figures);
  }

  MemoryDoubts doubts_;
};

TEST_F(MemoryDoubtsTest, WhoSaysMoreThanItUsesIsDoubtedInTheSecondSecond) {
  EXPECT_EQ(Pass(8 + kMore, Figures(7)), Rows());
  EXPECT_EQ(Pass(8 + kMore, Figures(7)), (Rows{{1, 1, 7}}));
  EXPECT_EQ(Pass(8 + kMore, Figures(6)), (Rows{{1, 1, 6}}));
}

TEST_F(MemoryDoubtsTest, WhoAllocatesAtTheMomentOfAFigureIsBelieved) {
  EXPECT_EQ(Pass(1024 * kMiB, Figures(0)), Rows());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Pass(kMore + 7, Figures(7)), Rows());
  EXPECT_EQ(Pass(1024 * kMiB, Figures(0)), Rows()) << "the first was long ago";
}

TEST_F(MemoryDoubtsTest, NowThisNowThatIsDoubted) {
  for (int i = 0; i < 3; ++i) Pass(i % 2 == 0 ? 1024 * kMiB : 0, Figures(0));
  EXPECT_EQ(Pass(0, Figures(0)), (Rows{{1, 1, 0}}));
}

TEST_F(MemoryDoubtsTest, RightReportsAreBelievedAgain) {
  for (int i = 0; i < 10; ++i) Pass(1024 * kMiB, Figures(0));
  for (uint32_t i = 1; i < MemoryDoubts::kRightMax; ++i) EXPECT_EQ(Pass(7, Figures(7)).size(), 1U);
  EXPECT_EQ(Pass(7, Figures(7)), Rows());
}

TEST_F(MemoryDoubtsTest, AProcessThatIsNotThereUsesNothing) {
  const ProcessFigures other{true, {{2, 0, 50, 3 * kMiB}}};
  EXPECT_EQ(Pass(1024 * kMiB, other), Rows());
  EXPECT_EQ(Pass(1024 * kMiB, other), (Rows{{1, 1, 0}}));
}

TEST_F(MemoryDoubtsTest, WhatIsNotKnownIsNotDoubted) {
  const ProcessFigures nobody{true, {}}, untold{false, {{2, 0, 50, 3 * kMiB}}};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Pass(1024 * kMiB, nobody), Rows());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Pass(1024 * kMiB, untold), Rows());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Pass(1024 * kMiB, Figures(ProcessFigures::kUnknownBytes)), Rows());
}

TEST_F(MemoryDoubtsTest, ASessionThatHasLeftIsForgotten) {
  for (int i = 0; i < 10; ++i) Pass(1024 * kMiB, Figures(0));
  doubts_.Hear({1, {}});
  EXPECT_EQ(doubts_.Compare(Figures(0)), Rows());
  EXPECT_EQ(Pass(1024 * kMiB, Figures(0)), Rows());
}

}  // namespace
}  // namespace tessera
