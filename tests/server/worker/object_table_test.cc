#include "server/worker/object_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

namespace tessera {
namespace {

constexpr uint32_t kSession = 5;

HandleId Client(HandleKind kind, uint32_t slot, uint32_t generation = 1) {
  return HandleId::Of(kSession, kind, generation, slot);
}

TEST(ObjectTable, FindsWhatWasInsertedUnderExactlyThatHandle) {
  ObjectTable table(kSession);
  const HandleId event = Client(HandleKind::kEvent, 7);
  ASSERT_TRUE(table.Insert(event, 0x1000));
  uint64_t object = 0;
  EXPECT_TRUE(table.Find(event, &object));
  EXPECT_EQ(object, 0x1000u);
  EXPECT_FALSE(table.Find(Client(HandleKind::kEvent, 7, 2), &object));  // another generation
  EXPECT_EQ(object, 0u);
  EXPECT_FALSE(table.Find(Client(HandleKind::kStream, 7), &object));  // another kind
  EXPECT_FALSE(table.Find(Client(HandleKind::kEvent, 8), &object));
  EXPECT_FALSE(table.Find(HandleId::Of(kSession - 1, HandleKind::kEvent, 1, 7), &object));  // another session
}

TEST(ObjectTable, NeverFindsMalformedValues) {
  ObjectTable table(kSession);
  uint64_t object = 0;
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{8}, ~uint64_t{0}, uint64_t{1} << 47}) {
    EXPECT_FALSE(table.Find(HandleId(value), &object)) << value;
    EXPECT_FALSE(table.Insert(HandleId(value), 1)) << value;
    EXPECT_FALSE(table.Remove(HandleId(value))) << value;
  }
}

TEST(ObjectTable, RefusesHandlesAClientMayNotMint) {
  ObjectTable table(kSession);
  EXPECT_FALSE(table.Insert(HandleId::Of(kSession + 1, HandleKind::kEvent, 1, 0), 1));
  EXPECT_FALSE(table.Insert(HandleId::Of(kSession, HandleKind::kEvent, 1, HandleId::kServerMinted), 1));
  EXPECT_EQ(table.size(), 0u);
}

TEST(ObjectTable, AHandleReplacesWhatStoodInItsSlot) {
  ObjectTable table(kSession);
  ASSERT_TRUE(table.Insert(Client(HandleKind::kEvent, 0, 1), 0x10));
  ASSERT_TRUE(table.Insert(Client(HandleKind::kStream, 0, 2), 0x20));
  uint64_t object = 0;
  EXPECT_FALSE(table.Find(Client(HandleKind::kEvent, 0, 1), &object));
  EXPECT_TRUE(table.HandleOf(HandleKind::kEvent, 0x10).is_null());
  EXPECT_TRUE(table.Find(Client(HandleKind::kStream, 0, 2), &object));
  EXPECT_EQ(table.size(), 1u);
}

TEST(ObjectTable, SaysWhetherAnObjectWasFreedOrReplaced) {
  ObjectTable table(kSession);
  std::map<uint64_t, ObjectTable::Removal> removed;
  table.OnRemoved([&](HandleId, uint64_t object, ObjectTable::Removal how) { removed[object] = how; });
  const HandleId context = Client(HandleKind::kContext, 9), allocation = Client(HandleKind::kMemoryAllocation, 0);
  ASSERT_TRUE(table.Insert(allocation, 0x10));
  ASSERT_TRUE(table.Insert(allocation, 0x20));
  ASSERT_TRUE(table.Insert(Client(HandleKind::kArray, 1), 0x30, context));
  table.Remove(allocation);
  table.RemoveOwned(context, [](HandleId, uint64_t) {});
  using enum ObjectTable::Removal;
  EXPECT_EQ(removed, (std::map<uint64_t, ObjectTable::Removal>{{0x10, kReplaced}, {0x20, kFreed}, {0x30, kFreed}}));
}

TEST(ObjectTable, RemovesWhatEndsWithAContext) {
  ObjectTable table(kSession);
  const HandleId context = Client(HandleKind::kContext, 1);
  const HandleId other = Client(HandleKind::kContext, 2);
  ASSERT_TRUE(table.Insert(Client(HandleKind::kStream, 10), 0x10, context));
  ASSERT_TRUE(table.Insert(Client(HandleKind::kStream, 11), 0x11, other));
  ASSERT_TRUE(table.Insert(Client(HandleKind::kLibrary, 12), 0x12, context));
  const HandleId function = table.Known(HandleKind::kFunction, 0x13, context);
  std::set<uint64_t> removed;
  table.RemoveOwned(context, [&](HandleId, uint64_t object) { removed.insert(object); });
  EXPECT_EQ(removed, (std::set<uint64_t>{0x10, 0x13}));
  uint64_t object = 0;
  EXPECT_FALSE(table.Find(Client(HandleKind::kStream, 10), &object));
  EXPECT_FALSE(table.Find(function, &object));
  EXPECT_TRUE(table.Find(Client(HandleKind::kStream, 11), &object));
  EXPECT_TRUE(table.Find(Client(HandleKind::kLibrary, 12), &object));
}

TEST(ObjectTable, ARemovedHandleStaysDeadWhenItsSlotIsTakenAgain) {
  ObjectTable table(kSession);
  ASSERT_TRUE(table.Insert(Client(HandleKind::kEvent, 3, 1), 0x10));
  uint64_t object = 0;
  ASSERT_TRUE(table.Remove(Client(HandleKind::kEvent, 3, 1), &object));
  EXPECT_EQ(object, 0x10u);
  EXPECT_FALSE(table.Remove(Client(HandleKind::kEvent, 3, 1)));
  ASSERT_TRUE(table.Insert(Client(HandleKind::kEvent, 3, 2), 0x20));
  EXPECT_FALSE(table.Find(Client(HandleKind::kEvent, 3, 1), &object));
  EXPECT_TRUE(table.Find(Client(HandleKind::kEvent, 3, 2), &object));
  EXPECT_EQ(object, 0x20u);
}

TEST(ObjectTable, KnownReturnsTheClientsHandleOrMintsOne) {
  ObjectTable table(kSession);
  const HandleId stream = Client(HandleKind::kStream, 1);
  ASSERT_TRUE(table.Insert(stream, 0x30));
  EXPECT_EQ(table.Known(HandleKind::kStream, 0x30), stream);
  const HandleId minted = table.Known(HandleKind::kGraph, 0x30);  // same address, another kind of object
  EXPECT_TRUE(minted.server_minted());
  EXPECT_EQ(minted.kind(), HandleKind::kGraph);
  EXPECT_EQ(minted.session(), kSession);
  EXPECT_EQ(table.Known(HandleKind::kGraph, 0x30), minted);
  uint64_t object = 0;
  EXPECT_TRUE(table.Find(minted, &object));
  EXPECT_TRUE(table.Known(HandleKind::kGraph, 0).is_null());
  ASSERT_TRUE(table.Remove(minted));
  EXPECT_TRUE(table.HandleOf(HandleKind::kGraph, 0x30).is_null());
  EXPECT_NE(table.Known(HandleKind::kGraph, 0x30), minted);
}

TEST(ObjectTable, RemovingAnOldHandleKeepsTheNewerOneOfTheSameObject) {
  ObjectTable table(kSession);
  const HandleId first = Client(HandleKind::kContext, 1);
  const HandleId second = Client(HandleKind::kContext, 2);
  ASSERT_TRUE(table.Insert(first, 0x40));
  ASSERT_TRUE(table.Insert(second, 0x40));
  ASSERT_TRUE(table.Remove(first));
  EXPECT_EQ(table.HandleOf(HandleKind::kContext, 0x40), second);
}

TEST(ObjectTable, ForEachVisitsTheLiveHandlesOfOneKind) {
  ObjectTable table(kSession);
  for (uint32_t slot = 0; slot < 10000; ++slot) {
    ASSERT_TRUE(table.Insert(Client(slot % 2 == 0 ? HandleKind::kEvent : HandleKind::kStream, slot), slot + 1));
  }
  ASSERT_TRUE(table.Remove(Client(HandleKind::kEvent, 0)));
  std::set<uint64_t> seen;
  table.ForEach(HandleKind::kEvent, [&](HandleId id, uint64_t object) {
    EXPECT_EQ(id.slot() + 1, object);
    seen.insert(object);
  });
  EXPECT_EQ(seen.size(), 4999u);
}

// A reader never gets the object of another generation for its handle.
TEST(ObjectTable, ReadersNeverSeeAnotherGenerationsObject) {
  ObjectTable table(kSession);
  constexpr uint32_t kGenerations = 16000;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    uint64_t found = 0;
    while (!done.load(std::memory_order_acquire)) {
      for (uint32_t generation = 1; generation < kGenerations; generation += 97) {
        uint64_t object = 0;
        if (!table.Find(Client(HandleKind::kEvent, 1, generation), &object)) continue;
        ++found;
        ASSERT_EQ(object, generation);
      }
    }
  });
  for (uint32_t generation = 1; generation < kGenerations; ++generation) {
    ASSERT_TRUE(table.Insert(Client(HandleKind::kEvent, 1, generation), generation));
    ASSERT_TRUE(table.Remove(Client(HandleKind::kEvent, 1, generation)));
  }
  done.store(true, std::memory_order_release);
  reader.join();
}

}  // namespace
}  // namespace tessera
