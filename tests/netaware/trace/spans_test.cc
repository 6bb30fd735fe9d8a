#include "netaware/trace/spans.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Spans, MergedAreSortedAndApart) {
  EXPECT_EQ(Merged({{5, 7}, {1, 3}, {2, 4}, {7, 9}, {10, 10}}), Spans({{1, 4}, {5, 9}}));
  EXPECT_EQ(Merged({}), Spans());
  EXPECT_EQ(Length({{1, 4}, {5, 9}}), 7);
}

TEST(Spans, WhatOthersCoverIsTakenAway) {
  EXPECT_EQ(Without({{0, 10}, {20, 30}}, {{2, 4}, {8, 22}, {30, 40}}), Spans({{0, 2}, {4, 8}, {22, 30}}));
  EXPECT_EQ(Without({{0, 2}, {3, 4}}, {{0, 10}}), Spans());
  EXPECT_EQ(Without({{5, 6}}, {}), Spans({{5, 6}}));
}

TEST(Spans, CoveredIsTheCommonPart) {
  const Spans spans = {{0, 2}, {4, 8}, {10, 12}};
  EXPECT_EQ(Covered(spans, {1, 11}), 1 + 4 + 1);
  EXPECT_EQ(Covered(spans, {2, 4}), 0);
  EXPECT_EQ(Covered(spans, {5, 6}), 1);
  EXPECT_EQ(Covered(spans, {20, 30}), 0);
  EXPECT_EQ(Covered({}, {0, 1}), 0);
}

}  // namespace
}  // namespace tessera
