#include "protocol/wire/handle.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using Side = HandleAllocator::Side;

TEST(HandleId, FieldsDoNotOverlapAndStayBelow47Bits) {
  const HandleId all = HandleId::Of(7, static_cast<HandleKind>(31), (1u << 14) - 1, (1u << 22) - 1);
  EXPECT_EQ(all.value(), (uint64_t{1} << 47) - 8);
  EXPECT_TRUE(all.IsWellFormed());
  const HandleId id = HandleId::Of(5, HandleKind::kGraphExec, 12345, 2'345'678);
  EXPECT_EQ(id.session(), 5u);
  EXPECT_EQ(id.kind(), HandleKind::kGraphExec);
  EXPECT_EQ(id.generation(), 12345u);
  EXPECT_EQ(id.slot(), 2'345'678u);
  EXPECT_TRUE(id.server_minted());
  for (uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{2}, id.value() | 4, id.value() | uint64_t{1} << 47, UINT64_MAX}) {
    EXPECT_FALSE(HandleId(value).IsWellFormed()) << value;
  }
}

TEST(HandleAllocator, KnowsWhatIsLive) {
  HandleAllocator handles(Side::kClient, 3);
  const HandleId event = handles.Mint(HandleKind::kEvent);
  EXPECT_EQ(event.session(), 3u);
  EXPECT_TRUE(handles.IsLive(event));
  EXPECT_TRUE(handles.IsLive(event, HandleKind::kEvent));
  EXPECT_FALSE(handles.IsLive(event, HandleKind::kStream));
  EXPECT_FALSE(handles.IsLive(HandleId::Of(3, HandleKind::kStream, event.generation(), event.slot())));
  EXPECT_FALSE(handles.IsLive(HandleId::Of(2, HandleKind::kEvent, event.generation(), event.slot())));
  EXPECT_FALSE(handles.IsLive(HandleId()));
  EXPECT_FALSE(handles.IsLive(HandleId(UINT64_MAX)));
  EXPECT_TRUE(handles.Release(event));
  EXPECT_FALSE(handles.IsLive(event));
  EXPECT_FALSE(handles.Release(event));
}

TEST(HandleAllocator, AStaleHandleIsNotTheNewOneOfItsSlot) {
  HandleAllocator handles(Side::kClient, 0);
  const HandleId first = handles.Mint(HandleKind::kEvent);
  ASSERT_TRUE(handles.Release(first));
  std::set<uint64_t> seen{first.value()};
  bool slot_came_back = false;
  for (size_t i = 0; i < 4 * HandleAllocator::kRestingSlots; ++i) {
    const HandleId id = handles.Mint(HandleKind::kEvent);
    slot_came_back |= id.slot() == first.slot();
    EXPECT_TRUE(seen.insert(id.value()).second) << "a value came back";
    EXPECT_FALSE(handles.IsLive(first));
    ASSERT_TRUE(handles.Release(id));
  }
  EXPECT_TRUE(slot_came_back);
}

TEST(HandleAllocator, SidesMintWithoutAskingEachOther) {
  HandleAllocator client(Side::kClient, 1), server(Side::kServer, 1);
  const HandleId mine = client.Mint(HandleKind::kStream);
  const HandleId theirs = server.Mint(HandleKind::kStream);
  EXPECT_NE(mine, theirs);
  EXPECT_TRUE(theirs.server_minted());
  EXPECT_FALSE(client.IsLive(theirs));
  EXPECT_TRUE(client.Adopt(theirs));
  EXPECT_TRUE(client.Adopt(theirs));
  EXPECT_TRUE(client.IsLive(theirs));
  EXPECT_FALSE(client.Adopt(mine));                                                                     // our own half
  EXPECT_FALSE(client.Adopt(HandleId::Of(2, HandleKind::kStream, 1, HandleId::kServerMinted)));         // another session
  EXPECT_FALSE(client.Adopt(HandleId::Of(1, HandleKind::kEvent, theirs.generation(), theirs.slot())));  // slot is taken
  EXPECT_TRUE(client.Release(theirs));
  EXPECT_FALSE(client.IsLive(theirs));
  EXPECT_TRUE(server.Adopt(mine));
}

TEST(HandleAllocator, RunsOutHonestly) {
  HandleAllocator handles(Side::kServer, 0);
  HandleId last;
  for (uint32_t i = 0; i < HandleAllocator::kSlots; ++i) last = handles.Mint(HandleKind::kGraphNode);
  ASSERT_TRUE(handles.IsLive(last));
  EXPECT_TRUE(handles.Mint(HandleKind::kGraphNode).is_null());
  EXPECT_TRUE(handles.Release(last));
  EXPECT_TRUE(handles.IsLive(handles.Mint(HandleKind::kGraphNode)));
}

TEST(HandleAllocator, ThreadsMintDifferentHandles) {
  HandleAllocator handles(Side::kClient, 0);
  constexpr int kThreads = 4, kRounds = 5'000;
  std::vector<std::vector<HandleId>> kept(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const HandleId id = handles.Mint(HandleKind::kEvent);
        EXPECT_TRUE(handles.IsLive(id));
        if (i % 3 == 0) {
          kept[t].push_back(id);
        } else {
          EXPECT_TRUE(handles.Release(id));
          EXPECT_FALSE(handles.IsLive(id));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> all;
  for (const auto& ids : kept) {
    for (HandleId id : ids) {
      EXPECT_TRUE(handles.IsLive(id));
      EXPECT_TRUE(all.insert(id.value()).second);
    }
  }
}

}  // namespace
}  // namespace tessera
