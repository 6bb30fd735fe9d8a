#include "server/daemon/warm_bounds.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

WarmBounds Bounds(uint64_t device_gib, uint64_t host_gib) { return {device_gib << 30, host_gib << 30, {}}; }

TEST(WarmBoundsTest, AnEighthOfWhatIsFree) {
  EXPECT_EQ(WarmWorkersWithin(Bounds(24, 0)), 4u);
  EXPECT_EQ(WarmWorkersWithin(Bounds(0, 24)), 12u);
  EXPECT_EQ(WarmWorkersWithin(Bounds(24, 8)), 4u);
  EXPECT_EQ(WarmWorkersWithin(Bounds(80, 8)), 4u);
  EXPECT_EQ(WarmWorkersWithin(Bounds(140, 128)), kWarmMax);
  EXPECT_EQ(WarmWorkersWithin(Bounds(0, 0)), kWarmMax) << "nothing is known";
}

TEST(WarmBoundsTest, OneIsThereWhateverTheMemory) { EXPECT_EQ(WarmWorkersWithin(Bounds(1, 1)), 1u); }

TEST(WarmBoundsTest, HalfOfTheUserIds) {
  WarmBounds bounds = Bounds(140, 128);
  for (const auto& [users, workers] : {std::pair<size_t, size_t>{1, 0}, {2, 1}, {9, 4}, {1000, kWarmMax}}) {
    bounds.users = users;
    EXPECT_EQ(WarmWorkersWithin(bounds), workers);
  }
}

}  // namespace
}  // namespace tessera
