#include "client-stub/process/process_part.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "client-stub/process/config.h"
#include "client-stub/process/slot_table.h"
#include "client-stub/session/client.h"
#include "client-stub/streams/stream_state.h"

namespace tessera {
namespace {

struct First {
  int value = 3;
};
struct Second {
  int seen = PartOfProcess<First>::Get().value;
};

TEST(ProcessPart, IsFoundByItsTypeFromWhenItIsMade) {
  EXPECT_EQ(PartOfProcess<First>::IfMade(), nullptr);
  const PartOfProcess<First> first;
  EXPECT_EQ(PartOfProcess<Second>::IfMade(), nullptr);
  const PartOfProcess<Second> second;  // uses the one before it
  EXPECT_EQ(PartOfProcess<Second>::Get().seen, 3);
}

TEST(ProcessPart, AllThreadsFindTheSame) {
  std::vector<StreamTable*> seen(8);
  std::vector<std::thread> threads;
  for (StreamTable*& one : seen) threads.emplace_back([&one] { one = &Streams(); });
  for (std::thread& thread : threads) thread.join();
  for (StreamTable* const one : seen) EXPECT_EQ(one, &Streams());
  EXPECT_EQ(Client::IfMade(), &Client::Get());
  EXPECT_EQ(&GetConfig(), &PartOfProcess<const Config>::Get());
}

TEST(SlotTable, KnowsLiveHandles) {
  static SlotTable<int> table;  // is never given back
  HandleAllocator handles(HandleAllocator::Side::kClient, 0);
  const HandleId first = handles.Mint(HandleKind::kEvent);
  const HandleId second = handles.Mint(HandleKind::kEvent);
  EXPECT_EQ(table.Find(first), nullptr);
  ASSERT_NE(table.Insert(first, [](int& value) { value = 1; }), nullptr);
  ASSERT_NE(table.Find(first), nullptr);
  EXPECT_EQ(*table.Find(first), 1);
  EXPECT_EQ(table.Find(second), nullptr);
  ASSERT_NE(table.Insert(second, [](int& value) { value = 2; }), nullptr);
  int sum = 0;
  table.ForEach([&](HandleId, int& value) { sum += value; });
  EXPECT_EQ(sum, 3);
  table.Erase(first);
  EXPECT_EQ(table.Find(first), nullptr);
  EXPECT_EQ(*table.Find(second), 2);
}

}  // namespace
}  // namespace tessera
