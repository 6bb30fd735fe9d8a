#include "client-stub/memory/device_memory.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

DeviceAllocation Allocation(uint64_t base, uint64_t bytes, DeviceAllocation::Kind kind = DeviceAllocation::Kind::kBlock,
                            HandleId context = HandleId(8)) {
  DeviceAllocation allocation;
  allocation.range = Range{base, bytes};
  allocation.kind = kind;
  allocation.context = context;
  return allocation;
}

TEST(DeviceMemoryTest, CoversWholeRangesOfOneAllocationOnly) {
  DeviceMemory memory;
  memory.Add(Allocation(0x1000, 0x1000));
  memory.Add(Allocation(0x2000, 0x1000));
  EXPECT_TRUE(memory.Covers(0x1000, 0x1000));
  EXPECT_TRUE(memory.Covers(0x1fff, 1));
  EXPECT_FALSE(memory.Covers(0x1fff, 2)) << "two blocks are not one, even side by side";
  EXPECT_FALSE(memory.Covers(0xfff, 2));
  EXPECT_FALSE(memory.Covers(0x2800, 0x801));
  EXPECT_FALSE(memory.Covers(0x1000, UINT64_MAX));
  EXPECT_FALSE(memory.Covers(0x3000, 0));
}

TEST(DeviceMemoryTest, MappingsSideBySideAreOneRange) {
  DeviceMemory memory;
  memory.Add(Allocation(0x1000, 0x1000, DeviceAllocation::Kind::kMapped));
  memory.Add(Allocation(0x2000, 0x1000, DeviceAllocation::Kind::kMapped));
  memory.Add(Allocation(0x4000, 0x1000, DeviceAllocation::Kind::kMapped));
  EXPECT_TRUE(memory.Covers(0x1800, 0x1800));
  EXPECT_FALSE(memory.Covers(0x1800, 0x1801));
  EXPECT_FALSE(memory.Covers(0x2800, 0x2000));
  EXPECT_TRUE(memory.AnyIn(Range{0x3000, 0x1001}));
  EXPECT_FALSE(memory.AnyIn(Range{0x3000, 0x1000}));
  EXPECT_TRUE(memory.AnyIn(Range{0x1800, 0x10}));
  memory.RemoveMappings(Range{0x1000, 0x2000});
  EXPECT_FALSE(memory.Find(0x1000).has_value());
  EXPECT_TRUE(memory.Find(0x4000).has_value());
}

TEST(DeviceMemoryTest, ContextTakesItsOwnAlong) {
  DeviceMemory memory;
  memory.Add(Allocation(0x1000, 16, DeviceAllocation::Kind::kBlock, HandleId(8)));
  memory.Add(Allocation(0x2000, 16, DeviceAllocation::Kind::kBlock, HandleId(16)));
  memory.Add(Allocation(0x3000, 16, DeviceAllocation::Kind::kPool, HandleId()));
  memory.RemoveContext(HandleId(8));
  EXPECT_FALSE(memory.Find(0x1000).has_value());
  EXPECT_TRUE(memory.Find(0x2000).has_value());
  EXPECT_TRUE(memory.Find(0x3000).has_value());
}

TEST(DeviceMemoryTest, SameAllocationKeepsItsNumberAnotherOneGetsANewOne) {
  DeviceMemory memory;
  memory.Add(Allocation(0x1000, 16));
  const uint64_t first = memory.Find(0x1000)->buffer_id;
  memory.Add(Allocation(0x1000, 16));
  EXPECT_EQ(memory.Find(0x1000)->buffer_id, first);
  memory.Add(Allocation(0x1000, 32));
  EXPECT_NE(memory.Find(0x1000)->buffer_id, first);
  EXPECT_EQ(memory.Find(0x101f)->range.bytes, 32u);
}

DeviceAllocation Variable(uint64_t base, uint64_t bytes, HandleId container) {
  DeviceAllocation variable = Allocation(base, bytes, DeviceAllocation::Kind::kGlobal);
  variable.container = container;
  return variable;
}

TEST(DeviceMemoryTest, VariablesGoWithTheirModule) {
  DeviceMemory memory;
  memory.Add(Variable(0x1000, 16, HandleId(24)));
  memory.Add(Variable(0x2000, 16, HandleId(32)));
  memory.Add(Allocation(0x3000, 16));
  memory.RemoveContainer(HandleId(24));
  EXPECT_FALSE(memory.Find(0x1000).has_value());
  EXPECT_TRUE(memory.Find(0x2000).has_value());
  EXPECT_TRUE(memory.Find(0x3000).has_value()) << "what has no container goes with none";
}

// The driver gives the addresses of an unloaded module to others.
TEST(DeviceMemoryTest, WhatTheServerGivesAnewHidesBehindNothing) {
  DeviceMemory memory;
  memory.Add(Variable(0x1000, 16, HandleId(24)));
  memory.Add(Variable(0x1800, 16, HandleId(24)));
  memory.Add(Variable(0x2ff8, 16, HandleId(24)));
  memory.Add(Allocation(0x1000, 0x2000, DeviceAllocation::Kind::kPool));
  EXPECT_TRUE(memory.Covers(0x1000, 0x2000));
  EXPECT_EQ(memory.Find(0x1808)->kind, DeviceAllocation::Kind::kPool);
  EXPECT_FALSE(memory.Find(0x3000).has_value());
}

TEST(DeviceMemoryTest, APartOfAVariableIsNoMemoryOfItsOwn) {
  DeviceMemory memory;
  memory.Add(Variable(0x1000, 64, HandleId(24)));
  memory.Add(Variable(0x1010, 16, HandleId(24)));
  EXPECT_TRUE(memory.Covers(0x1000, 64));
  memory.Add(Variable(0x1010, 16, HandleId(32)));
  EXPECT_FALSE(memory.Covers(0x1000, 64)) << "another module's variable says that the first one is gone";
  EXPECT_TRUE(memory.Covers(0x1010, 16));
}

TEST(DeviceMemoryTest, NearestIsTheOneBelow) {
  DeviceMemory memory;
  memory.Add(Allocation(0x1000, 16));
  EXPECT_FALSE(memory.FindNearest(0xfff).has_value());
  EXPECT_EQ(memory.FindNearest(0x5000)->range.base, 0x1000u);
}

}  // namespace
}  // namespace tessera
