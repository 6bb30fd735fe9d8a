#include "client-stub/managed/small_blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tessera {
namespace {

constexpr Range kSpan{0x200000000000, SmallBlocks::kSpanBytes - kManagedPageBytes};

TEST(SmallBlocksTest, EachHasWholePagesBesideTheOthers) {
  SmallBlocks blocks(kSpan);
  for (uint64_t i = 0; i < kSpan.bytes / kManagedPageBytes; ++i) {
    const auto taken = blocks.Take(i % 2 == 0 ? 32 : kManagedPageBytes);
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->range, (Range{kSpan.base + i * kManagedPageBytes, kManagedPageBytes}));
    EXPECT_FALSE(taken->used_before);
  }
  EXPECT_EQ(blocks.largest(), 0u);
  EXPECT_FALSE(blocks.Take(1));
}

TEST(SmallBlocksTest, PagesOfAnotherBlockAreKnown) {
  SmallBlocks blocks(kSpan);
  const Range first = blocks.Take(100)->range;
  const Range second = blocks.Take(5000)->range;
  EXPECT_EQ(second.bytes, 2 * kManagedPageBytes);
  blocks.Free(first.base);
  EXPECT_EQ(blocks.Find(first.base), std::nullopt);
  EXPECT_EQ(blocks.Find(second.base + 4999), second);
  const auto again = blocks.Take(1);
  EXPECT_EQ(again->range.base, first.base);
  EXPECT_TRUE(again->used_before);
  EXPECT_FALSE(blocks.Take(1)->used_before);
  EXPECT_EQ(blocks.count(), 3u);
}

TEST(SmallBlocksTest, AnyOrder) {
  SmallBlocks blocks(kSpan);
  std::mt19937_64 random(1);
  std::map<uint64_t, uint64_t> held;
  uint64_t pages = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0 && !held.empty()) {
      const auto some = std::next(held.begin(), static_cast<long>(random() % held.size()));
      blocks.Free(some->first);
      pages -= some->second;
      held.erase(some);
      continue;
    }
    const uint64_t bytes = 1 + random() % SmallBlocks::kBlockBytesMax;
    const uint64_t largest = blocks.largest();
    const auto taken = blocks.Take(bytes);
    EXPECT_EQ(taken.has_value(), bytes <= largest);
    if (!taken) continue;
    EXPECT_GE(taken->range.bytes, bytes);
    EXPECT_TRUE(kSpan.contains(taken->range.base, taken->range.bytes));
    EXPECT_TRUE(held.emplace(taken->range.base, taken->range.bytes / kManagedPageBytes).second);
    pages += taken->range.bytes / kManagedPageBytes;
  }
  EXPECT_EQ(blocks.count(), held.size());
  EXPECT_LE(pages, kSpan.bytes / kManagedPageBytes);
}

}  // namespace
}  // namespace tessera
