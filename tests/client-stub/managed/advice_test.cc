#include "client-stub/managed/advice.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

std::vector<bool> ReadMostly(const AdviceMap& map, const Range& range) {
  std::vector<bool> parts;
  map.ForEach(range, [&](const Advice& advice) { parts.push_back(advice.read_mostly); });
  return parts;
}

TEST(AdviceMapTest, AdviceHoldsForItsRangeAlone) {
  AdviceMap map(0x1000);
  map.Update(Range{0x3000, 0x1000}, [](Advice& advice) { advice.read_mostly = true; });
  EXPECT_EQ((std::vector<bool>{false}), ReadMostly(map, Range{0x1000, 0x2000}));
  EXPECT_EQ((std::vector<bool>{true}), ReadMostly(map, Range{0x3000, 0x1000}));
  EXPECT_EQ((std::vector<bool>{true}), ReadMostly(map, Range{0x3fff, 1}));
  EXPECT_EQ((std::vector<bool>{false}), ReadMostly(map, Range{0x4000, 1}));
  EXPECT_EQ((std::vector<bool>{false, true, false}), ReadMostly(map, Range{0x2fff, 0x1002}));
}

TEST(AdviceMapTest, LaterAdviceKeepsWhatItDoesNotSpeakOf) {
  AdviceMap map(0);
  map.Update(Range{0, 0x2000}, [](Advice& advice) { advice.accessed_by.insert(1); });
  map.Update(Range{0x1000, 0x2000}, [](Advice& advice) { advice.read_mostly = true; });
  std::vector<Advice> parts;
  map.ForEach(Range{0, 0x3000}, [&](const Advice& advice) { parts.push_back(advice); });
  ASSERT_EQ(3u, parts.size());
  EXPECT_EQ((std::set<int>{1}), parts[0].accessed_by);
  EXPECT_FALSE(parts[0].read_mostly);
  EXPECT_EQ((std::set<int>{1}), parts[1].accessed_by);
  EXPECT_TRUE(parts[1].read_mostly);
  EXPECT_TRUE(parts[2].accessed_by.empty());
  EXPECT_TRUE(parts[2].read_mostly);
}

}  // namespace
}  // namespace tessera
