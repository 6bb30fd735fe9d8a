#include "protocol/memory/range_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace tessera {
namespace {

TEST(RangeTest, ContainsIsExactAtBothEndsAndSafeAgainstOverflow) {
  const Range range{0x1000, 0x1000};
  EXPECT_TRUE(range.contains(0x1000));
  EXPECT_TRUE(range.contains(0x1fff));
  EXPECT_FALSE(range.contains(0x2000));
  EXPECT_FALSE(range.contains(0xfff));
  EXPECT_TRUE(range.contains(0x1000, 0x1000));
  EXPECT_FALSE(range.contains(0x1001, 0x1000));
  EXPECT_TRUE(range.contains(0x2000, 0));
  EXPECT_FALSE(range.contains(0x1800, UINT64_MAX));
  EXPECT_FALSE(range.contains(0xfff, 1));
}

TEST(RangeAllocatorTest, RefusesWhatCannotFit) {
  RangeAllocator ranges(0x10000, 0x10000, 0x100);
  EXPECT_FALSE(ranges.Allocate(0));
  EXPECT_FALSE(ranges.Allocate(0x10001));
  EXPECT_FALSE(ranges.Allocate(UINT64_MAX));
  ASSERT_TRUE(ranges.Allocate(0x10000));
  EXPECT_FALSE(ranges.Allocate(1));
  EXPECT_EQ(ranges.Free(0x10100), 0u);
  EXPECT_EQ(ranges.Free(0x10000), 0x10000u);
  EXPECT_EQ(ranges.Free(0x10000), 0u);
  EXPECT_EQ(ranges.largest_free(), 0x10000u);
}

TEST(RangeAllocatorTest, HonoursAlignmentAndReturnsThePadding) {
  RangeAllocator ranges(0x1000, 0x10000, 0x1000);
  const auto small = ranges.Allocate(1);
  ASSERT_TRUE(small);
  EXPECT_EQ(*small, (Range{0x1000, 0x1000}));
  const auto aligned = ranges.Allocate(0x1000, 0x8000);
  ASSERT_TRUE(aligned);
  EXPECT_EQ(aligned->base, 0x8000u);
  // The gap in front of the aligned range is the best fit for what fits it.
  const auto gap = ranges.Allocate(0x6000);
  ASSERT_TRUE(gap);
  EXPECT_EQ(gap->base, 0x2000u);
}

TEST(RangeAllocatorTest, AllocateAtTakesOnlyFreeRanges) {
  RangeAllocator ranges(0x1000, 0x10000, 0x1000);
  EXPECT_TRUE(ranges.AllocateAt(0x3000, 0x2000));
  EXPECT_FALSE(ranges.AllocateAt(0x4000, 0x1000));
  EXPECT_FALSE(ranges.AllocateAt(0x2000, 0x2000));
  EXPECT_FALSE(ranges.AllocateAt(0x10000, 0x2000));
  EXPECT_FALSE(ranges.AllocateAt(0x1001, 0x1000));
  EXPECT_FALSE(ranges.AllocateAt(0, 0x1000));
  EXPECT_TRUE(ranges.AllocateAt(0x2000, 0x1000));
  ASSERT_TRUE(ranges.Find(0x4fff));
  EXPECT_EQ(ranges.Find(0x4fff)->base, 0x3000u);
  EXPECT_FALSE(ranges.Find(0x5000));
}

// Against a model that knows only a map of used ranges: nothing overlaps, nothing leaves the window, nothing is lost.
TEST(RangeAllocatorTest, RandomUseNeverOverlapsAndEndsWhole) {
  constexpr uint64_t kBase = 0x200000;
  constexpr uint64_t kBytes = 1 << 20;
  RangeAllocator ranges(kBase, kBytes, 64);
  std::map<uint64_t, uint64_t> model;
  std::mt19937_64 random(7);
  for (int step = 0; step < 20000; ++step) {
    if (model.empty() || random() % 5 < 3) {
      const uint64_t bytes = 1 + random() % 9000;
      const uint64_t alignment = uint64_t{1} << (random() % 13);
      const auto range = ranges.Allocate(bytes, alignment);
      if (!range) continue;
      ASSERT_EQ(range->base % alignment, 0u);
      ASSERT_GE(range->bytes, bytes);
      ASSERT_TRUE(ranges.whole().contains(range->base, range->bytes));
      auto after = model.lower_bound(range->base);
      if (after != model.end()) {
        ASSERT_LE(range->end(), after->first);
      }
      if (after != model.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, range->base);
      }
      model.emplace(range->base, range->bytes);
    } else {
      auto victim = model.begin();
      std::advance(victim, random() % model.size());
      ASSERT_EQ(ranges.Free(victim->first), victim->second);
      model.erase(victim);
    }
    ASSERT_EQ(ranges.used_count(), model.size());
  }
  for (const auto& [base, bytes] : model) ASSERT_EQ(ranges.Free(base), bytes);
  EXPECT_TRUE(ranges.empty());
  EXPECT_EQ(ranges.used_bytes(), 0u);
  EXPECT_EQ(ranges.largest_free(), kBytes);
}

}  // namespace
}  // namespace tessera
