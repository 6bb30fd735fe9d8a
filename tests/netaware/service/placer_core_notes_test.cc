// The notes of the placer's core about its events.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/netaware/service/placer_world.h"

namespace tessera {
namespace {

// "actor action object outcome", of grants with their request for the id.
std::vector<std::string> NotesOf(World& world, const std::map<GrantId, std::string>& names) {
  std::vector<std::string> notes;
  for (const AuditRecord& record : std::exchange(world.records, {})) {
    std::string object = record.object;
    for (const auto& [id, name] : names) object = object == GrantText(id) ? name : object;
    notes.push_back(record.actor + " " + record.action + " " + object + " " + record.outcome);
  }
  return notes;
}

TEST(PlacerCore, WhatHappensIsRememberedWithWhatIsStored) {
  World world;
  JoiningNode node = Node(1, 2);
  node.holder = "name:gpu1";
  ASSERT_TRUE(world.core->Join(node, world.now_ms).ok());
  EXPECT_FALSE(world.core->Join(node, world.now_ms).ok());
  const GrantId a = world.Ask("a"), b = world.Ask("b"), late = world.Ask("late", 1, 10),
                never = world.Ask("never", 1, -1, "name:bob");
  world.now_ms += 1'000;
  world.Settle();
  ASSERT_TRUE(world.core->Revoke(a, "by name:boss: noon", "name:boss").ok());
  ASSERT_TRUE(world.core->Release(b).ok());
  world.core->Withdraw(never);
  world.Settle();
  world.core->Leave("server1", world.now_ms);
  const size_t transactions = world.transactions.size();
  world.core->StoreNotes(world.now_ms);
  EXPECT_EQ(world.transactions.size(), transactions + 1);
  world.core->StoreNotes(world.now_ms);  // nothing is noted, and nothing stored
  EXPECT_EQ(world.transactions.size(), transactions + 1);
  EXPECT_EQ(world.records[1].outcome, "refused");
  EXPECT_EQ(world.records[2].time_ms, 1'000'000);
  EXPECT_EQ(world.records[2].text, "1 GPU, 1 of each");
  // Each stored change has its record with it.
  for (const StoreTransaction& transaction : world.transactions) {
    for (const StoreChange& change : transaction.changes) {
      const std::string grant = change.key.substr(change.key.find('/') + 1);
      const auto tells = [&](const StoreRecord& record) { return ReadAudit(record).value().object == grant; };
      EXPECT_TRUE(std::ranges::any_of(transaction.records, tells)) << change.key;
    }
  }
  std::vector<std::string> notes = NotesOf(world, {{a, "a"}, {b, "b"}, {late, "late"}, {never, "never"}});
  for (const char* note : {"name:gpu1 join server1 done", "name:gpu1 join server1 refused", "name:alice ask a done",
                           "placer grant a done", "name:alice ask b done", "placer grant b done", "name:alice ask late done",
                           "name:bob ask never done", "placer grant late late", "name:boss revoke a done",
                           "name:alice release b done", "name:bob release never done", "placer leave server1 done"}) {
    const auto found = std::ranges::find(notes, note);
    EXPECT_NE(found, notes.end()) << note;
    if (found != notes.end()) notes.erase(found);
  }
  EXPECT_EQ(notes, std::vector<std::string>());
}

TEST(PlacerCore, WhatAFullStoreHasNotKeptIsNotedAgainButNotWhatWasNotGranted) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.records.clear();
  world.full = true;
  const GrantId id = world.Ask("r");
  ASSERT_EQ(world.failed.size(), 2U);  // asked, and granted
  world.core->NotesNotStored(std::exchange(world.failed, {}));
  world.full = false;
  world.now_ms += PlacerCore::kStoreAgainMs;
  world.Settle();
  ASSERT_EQ(world.StateOf(id), State::kGranted);
  EXPECT_EQ(NotesOf(world, {{id, "r"}}), (std::vector<std::string>{"name:alice ask r done", "placer grant r done"}));
}

TEST(PlacerCore, TheSameRefusalAgainAndAgainIsOneRecordAndACount) {
  World world;
  const AuditRecord refused{.actor = "name:eve", .action = "ask", .outcome = "refused", .text = "no role\x1b"};
  for (int i = 0; i < 100; ++i) {
    world.core->Note(refused, world.now_ms += 10);
    world.core->StoreNotes(world.now_ms);
  }
  ASSERT_EQ(world.records.size(), 1U);
  EXPECT_EQ(world.records[0].text, "no role?");
  world.core->StoreNotes(world.now_ms += EqualRefusals::kMinuteMs);
  ASSERT_EQ(world.records.size(), 2U);
  EXPECT_EQ(world.records[1].text, "no role? (99 times more in 1 s)");
  world.core->Note(refused, world.now_ms);
  world.core->Note(refused, world.now_ms);
  world.core->StoreNotes(INT64_MAX);  // it ends
  ASSERT_EQ(world.records.size(), 4U);
  EXPECT_EQ(world.records[3].text, "no role? (1 time more in 0 s)");
}

TEST(PlacerCore, AskingForWhatNeverFitsIsTwoRecordsAndTheirCounts) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.Ask("good", 0.5, -1, "name:bob");
  PlacerCore::Ask never{.holder = "name:eve"};
  never.wish.gpus = 7;
  for (int i = 0; i < 3'000; ++i) {
    never.request_id = std::to_string(i);
    ASSERT_TRUE(world.core->Place(never, world.now_ms).ok());
    world.core->Turn(++world.now_ms);
    if (i % 100 == 0) world.core->StoreNotes(world.now_ms);
  }
  world.core->StoreNotes(INT64_MAX);
  const auto of_eve = [](const AuditRecord& record) { return record.actor == "name:eve" || record.holder == "name:eve"; };
  EXPECT_EQ(std::ranges::count_if(world.records, of_eve), 4);
  EXPECT_EQ(std::ranges::count_if(world.records,
                                  [](const AuditRecord& record) {
                                    return record.text.ends_with("(2999 times more in 3 s)") && record.object.empty();
                                  }),
            2);
  // Whose part it takes.
  for (const StoreTransaction& transaction : world.transactions) {
    for (const StoreRecord& record : transaction.records) {
      EXPECT_EQ(record.owner == "name:eve", of_eve(ReadAudit(record).value())) << record.owner;
    }
  }
}

TEST(PlacerCore, OfTooManyThatWaitWhoeverHasMostLosesHisOwn) {
  World world;
  for (size_t i = 0; i < WaitingNotes::kMost + 10; ++i)
    world.core->Note({.actor = "name:eve", .object = std::to_string(i)}, world.now_ms);
  for (int i = 0; i < 5; ++i) world.core->Note({.actor = "name:bob", .object = "bob's"}, world.now_ms);
  // A write has a bounded number of notes of one actor, so that they delay the notes of others by that alone.
  const auto of = [&](const char* actor) { return std::ranges::count(world.records, actor, &AuditRecord::actor); };
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  EXPECT_EQ(of("name:bob"), 5);
  EXPECT_EQ(of("name:eve"), 128);
  world.core->StoreNotes(world.now_ms);
  EXPECT_EQ(of("name:eve"), 128 + 2'048);
  for (int i = 0; i < 4; ++i) world.core->StoreNotes(world.now_ms);
  EXPECT_EQ(of("name:eve") + of("name:bob"), WaitingNotes::kMost - 1);  // and the joining's
  const auto eves = std::ranges::find_if(world.records, [](const AuditRecord& record) { return record.actor == "name:eve"; });
  EXPECT_EQ(eves->object, "0");  // in their order
}

}  // namespace
}  // namespace tessera
