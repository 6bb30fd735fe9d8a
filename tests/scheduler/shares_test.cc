#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "scheduler/share_filling.h"
#include "scheduler/static_slots.h"

namespace tessera {
namespace {

std::vector<double> Filled(const std::vector<ShareBounds>& bounds, double total = 1) {
  std::vector<double> shares(bounds.size());
  FillShares(bounds, total, shares);
  return shares;
}

void ExpectShares(const std::vector<ShareBounds>& bounds, const std::vector<double>& wanted) {
  const std::vector<double> shares = Filled(bounds);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(shares[i], wanted[i], 1e-9) << i;
}

TEST(ShareFillingTest, TheRestGoesToWhoHasLeast) {
  ExpectShares({{0.7, 1}, {0.3, 1}}, {0.7, 0.3});
  ExpectShares({{0.6, 1}, {0.1, 1}}, {0.6, 0.4});
  ExpectShares({{0.2, 1}, {0.1, 1}}, {0.5, 0.5});
  ExpectShares({{0.2, 0.3}, {0.1, 1}}, {0.3, 0.7});
  ExpectShares({{0.2, 0.3}}, {0.3});
  ExpectShares({{0.2, 0.3}, {0.1, 0.2}}, {0.3, 0.2});
  ExpectShares({{0, 1}, {0, 1}, {0.5, 0.5}}, {0.25, 0.25, 0.5});
  ExpectShares({}, {});
}

TEST(ShareFillingTest, AddsUpForAnyBounds) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> part(0, 1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ShareBounds> bounds(1 + random() % 40);
    double floors = 0, caps = 0;
    for (ShareBounds& each : bounds) {
      each.floor = part(random) / static_cast<double>(bounds.size());
      each.cap = std::min(1.0, each.floor + part(random) * part(random));
      floors += each.floor;
      caps += each.cap;
    }
    const std::vector<double> shares = Filled(bounds);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), std::clamp(1.0, floors, caps), 1e-9);
    for (size_t i = 0; i < bounds.size(); ++i) {
      EXPECT_GE(shares[i], bounds[i].floor);
      EXPECT_LE(shares[i], bounds[i].cap);
    }
  }
}

TEST(StaticSlotsTest, RequestsAndAnEqualPartOfTheRest) {
  const SlotShare shares[] = {{0.5, 1}, {0.1, 1}};
  const std::vector<StaticSlot> slots = DivideIntoSlots(shares);
  EXPECT_EQ(slots[0], (StaticSlot{0, 70 * kMillisecondNs}));
  EXPECT_NEAR(static_cast<double>(slots[1].begin_ns), 70e6, 2);
  EXPECT_NEAR(static_cast<double>(slots[1].length_ns), 30e6, 2);
}

TEST(StaticSlotsTest, WithoutARequestThereIsOnePercent) {
  const SlotShare shares[] = {{0.6, 1}, {0.39, 1}, {0, 1}, {0, 1}};
  const std::vector<StaticSlot> slots = DivideIntoSlots(shares);
  for (const size_t each : {2, 3}) EXPECT_NEAR(static_cast<double>(slots[each].length_ns), 0.5e6, 2);
}

TEST(StaticSlotsTest, NobodyIsBeyondItsLimitAndNoneOverlap) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> part(0, 1);
  for (int round = 0; round < 500; ++round) {
    std::vector<SlotShare> shares(1 + random() % 64);
    for (SlotShare& each : shares) {
      each.request = part(random) / static_cast<double>(shares.size());
      each.limit = std::min(1.0, each.request + part(random) * 0.1);
    }
    int64_t end_ns = 0;
    const std::vector<StaticSlot> slots = DivideIntoSlots(shares);
    for (size_t i = 0; i < slots.size(); ++i) {
      EXPECT_GE(slots[i].begin_ns, end_ns);
      end_ns = slots[i].begin_ns + slots[i].length_ns;
      EXPECT_GE(static_cast<double>(slots[i].length_ns + 1), shares[i].request * kSlotPeriodNs);
      EXPECT_LE(static_cast<double>(slots[i].length_ns), shares[i].limit * kSlotPeriodNs + 1);
    }
    EXPECT_LE(end_ns, kSlotPeriodNs);
  }
}

TEST(StaticSlotsTest, KnowsWhenItIsOpen) {
  const StaticSlot slot = {20 * kMillisecondNs, 30 * kMillisecondNs};
  const int64_t period_ns = 7 * kSlotPeriodNs;
  EXPECT_EQ(slot.OpenUntilNs(period_ns + 19), period_ns + 19);
  EXPECT_EQ(slot.NextBeginNs(period_ns + 19), period_ns + slot.begin_ns);
  EXPECT_EQ(slot.OpenUntilNs(period_ns + slot.begin_ns), period_ns + 50 * kMillisecondNs);
  EXPECT_EQ(slot.OpenUntilNs(period_ns + 50 * kMillisecondNs - 1), period_ns + 50 * kMillisecondNs);
  EXPECT_EQ(slot.OpenUntilNs(period_ns + 50 * kMillisecondNs), period_ns + 50 * kMillisecondNs);
  EXPECT_EQ(slot.NextBeginNs(period_ns + slot.begin_ns), period_ns + kSlotPeriodNs + slot.begin_ns);
}

}  // namespace
}  // namespace tessera
