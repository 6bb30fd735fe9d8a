// The promises of every kind of store.
#include <gtest/gtest.h>

#include <algorithm>

#include "netaware/store/memory_store.h"
#include "netaware/store/sqlite_store.h"
#include "tests/netaware/store/some_store.h"

namespace tessera {
namespace {

using Outcome = StoreResult::Outcome;

class StoreConformance : public ::testing::TestWithParam<const char*> {
 protected:
  StoreConformance() {
    if (std::string(GetParam()) == "memory") {
      store = MakeMemoryStore();
    } else {
      auto opened = OpenSqliteStore(directory.File());
      EXPECT_TRUE(opened.ok()) << opened.status().message();
      store = std::move(opened).value();
    }
  }

  StoreDirectory directory;
  std::unique_ptr<Store> store;
};

INSTANTIATE_TEST_SUITE_P(Kinds, StoreConformance, ::testing::Values("memory", "sqlite"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(StoreConformance, BeginsEmpty) {
  EXPECT_EQ(store->revision(), 0u);
  EXPECT_GE(store->epoch(), 1u);
  EXPECT_EQ(store->Get("a"), std::nullopt);
  EXPECT_TRUE(store->Range("").empty());
  EXPECT_TRUE(store->Since(0).value().empty());
}

TEST_P(StoreConformance, WhatWasPutIsThereUntilItIsRemoved) {
  const std::string bytes("\0\xff'\n", 4);
  EXPECT_EQ(Commit(*store, Put("a", bytes)).revision, 1u);
  EXPECT_EQ(Commit(*store, Put("b", "")).revision, 2u);
  EXPECT_EQ(store->Get("a"), (StoreEntry{"a", bytes, 1}));
  EXPECT_EQ(store->Get("b"), (StoreEntry{"b", "", 2}));
  EXPECT_EQ(Commit(*store, Put("a", "new")).revision, 3u);
  EXPECT_EQ(store->Get("a"), (StoreEntry{"a", "new", 3}));
  EXPECT_EQ(Commit(*store, {.changes = {{"a", std::nullopt}, {"never there", std::nullopt}}}).outcome, Outcome::kDone);
  EXPECT_EQ(store->Get("a"), std::nullopt);
  EXPECT_EQ(store->revision(), 4u);
}

TEST_P(StoreConformance, ARangeIsAllThatBeginsSo) {
  for (const char* key : {"gpus/2", "gpus/10", "gpus", "grants/1", "gpus0"})
    ASSERT_EQ(Commit(*store, Put(key, "v")).outcome, Outcome::kDone);
  const std::vector<StoreEntry> found = store->Range("gpus/");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "gpus/10");
  EXPECT_EQ(found[1].key, "gpus/2");
  EXPECT_EQ(store->Range("").size(), 5u);
}

TEST_P(StoreConformance, ACompareThatIsNotSoChangesNothing) {
  ASSERT_EQ(Commit(*store, Put("a", "1", {{"a", 0}})).revision, 1u);
  StoreTransaction both = Put("a", "2", {{"b", 0}, {"a", 7}});
  both.changes.push_back({"b", "2"});
  const StoreResult stale = Commit(*store, both);
  EXPECT_EQ(stale.outcome, Outcome::kStale);
  EXPECT_EQ(stale.reason, "'a' has the revision 1, and not 7");
  EXPECT_EQ(Commit(*store, Put("a", "2", {{"a", 0}})).outcome, Outcome::kStale);
  EXPECT_EQ(store->Get("a"), (StoreEntry{"a", "1", 1}));
  EXPECT_EQ(store->Get("b"), std::nullopt);
  EXPECT_EQ(store->revision(), 1u);
  EXPECT_EQ(Commit(*store, Put("a", "2", {{"a", 1}})).revision, 2u);
}

TEST_P(StoreConformance, OfThoseGivenTogetherEachSeesWhatTheOnesBeforeDid) {
  const std::vector<StoreTransaction> together = {
      Put("gpu", "first", {{"gpu", 0}}),
      Put("gpu", "second", {{"gpu", 0}}),  // the first has it
      {.changes = {}},                     // none
      Put("gpu", "third", {{"gpu", 1}}),   // goes on behind the first
      {.compares = {{"gpu", 2}}, .changes = {{"gpu", std::nullopt}, {"other", "x"}}},
      Put("gpu", "fourth", {{"gpu", 0}}),
  };
  const std::vector<StoreResult> results = store->Commit(together);
  std::vector<Outcome> outcomes;
  for (const StoreResult& result : results) outcomes.push_back(result.outcome);
  EXPECT_EQ(outcomes,
            (std::vector{Outcome::kDone, Outcome::kStale, Outcome::kInvalid, Outcome::kDone, Outcome::kDone, Outcome::kDone}));
  EXPECT_EQ(results[5].revision, 4u);
  EXPECT_EQ(store->Get("gpu"), (StoreEntry{"gpu", "fourth", 4}));
  EXPECT_EQ(store->Since(2).value(),
            (std::vector<StoreEvent>{{3, {"gpu", std::nullopt}}, {3, {"other", "x"}}, {4, {"gpu", "fourth"}}}));
}

TEST_P(StoreConformance, WhatCannotBeStoredIsRefused) {
  for (const auto& [transaction, reason] : {
           std::pair<StoreTransaction, std::string>{{.changes = {}}, "it changes nothing"},
           {Put("", "x"), "a key has 0 bytes: 1 to 512 can be"},
           {Put(std::string(513, 'k'), "x"), "a key has 513 bytes: 1 to 512 can be"},
           {Put("k\n", std::string(65'537, 'x')), "the value of 'k?' has 65537 bytes: 65536 can be"},
           {{.changes = {{"k", "1"}, {"k", "2"}}}, "'k' is changed twice"},
       }) {
    const StoreResult result = Commit(*store, transaction);
    EXPECT_EQ(result.outcome, Outcome::kInvalid);
    EXPECT_EQ(result.reason, reason);
  }
  EXPECT_EQ(Commit(*store, Put(std::string(512, 'k'), std::string(65'536, 'x'))).revision, 1u);
}

TEST_P(StoreConformance, ChangesAreToldAsLongAsTheyAreKept) {
  std::vector<StoreTransaction> many;
  for (size_t i = 0; i < Store::kEventsKept + 10; ++i) many.push_back({.changes = {{"a", std::to_string(i)}, {"b", "x"}}});
  store->Commit(many);
  const uint64_t last = many.size();
  EXPECT_EQ(store->Since(last).value().size(), 0u);
  const std::vector<StoreEvent> newest = store->Since(last - 1).value();
  ASSERT_EQ(newest.size(), 2u);
  EXPECT_EQ(newest[0], (StoreEvent{last, {"a", std::to_string(last - 1)}}));
  EXPECT_EQ(store->Since(last - Store::kEventsKept / 2).value().size(), Store::kEventsKept);
  const auto older = store->Since(last - Store::kEventsKept / 2 - 1);
  ASSERT_FALSE(older.ok());
  EXPECT_EQ(older.status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(store->Since(0).ok());
}

std::vector<std::string> ValuesOf(const Result<std::vector<StoreRecord>>& records) {
  std::vector<std::string> values;
  for (const StoreRecord& record : records.value()) values.push_back(record.value);
  return values;
}
using Values = std::vector<std::string>;

TEST_P(StoreConformance, RecordsAreAddedWithWhatTheyTellOf) {
  const uint64_t before = store->last_record();
  ASSERT_EQ(Commit(*store, Put("a", "1")).record, 0u);
  const std::vector<StoreTransaction> together = {
      {.changes = {{"a", "2"}}, .records = {{0, 10, "a is 2"}, {0, 10, std::string("\0\xff", 2)}}},
      {.compares = {{"a", 1}}, .changes = {{"a", "3"}}, .records = {{0, 11, "a is 3"}}},  // it is not
      {.records = {{0, 12, "alone"}}},
      {.records = {{0, 13, std::string(4'097, 'x')}}},
  };
  const std::vector<StoreResult> results = store->Commit(together);
  EXPECT_EQ(results[0].record, before + 1);
  EXPECT_EQ(results[1].outcome, Outcome::kStale);
  EXPECT_EQ(results[2].record, before + 3);
  EXPECT_EQ(results[3].reason, "a record has 4097 bytes: 4096 can be");
  EXPECT_EQ(store->last_record(), before + 3);
  EXPECT_EQ(store->RecordsAfter(0, 9).value(),
            (std::vector<StoreRecord>{
                {before + 1, 10, "a is 2"}, {before + 2, 10, std::string("\0\xff", 2)}, {before + 3, 12, "alone"}}));
  EXPECT_EQ(ValuesOf(store->RecordsAfter(before + 2, 9)), Values{"alone"});
  EXPECT_EQ(ValuesOf(store->RecordsAfter(0, 1)), Values{"a is 2"});
  EXPECT_EQ(ValuesOf(store->RecordsBefore(before + 3, 1)), (Values{std::string("\0\xff", 2)}));
  EXPECT_EQ(ValuesOf(store->RecordsBefore(UINT64_MAX, 2)), (Values{std::string("\0\xff", 2), "alone"}));
  EXPECT_TRUE(store->RecordsAfter(before + 3, 9).value().empty());
  EXPECT_TRUE(store->RecordsBefore(before + 1, 9).value().empty());
  EXPECT_EQ(store->Since(1).value().size(), 1u);
}

TEST_P(StoreConformance, OldRecordsGoInSmallPieces) {
  store->SetRecordBounds({.age_ms = 1'000, .most = 300});
  StoreTransaction many;
  for (int i = 0; i < 500; ++i) many.records.push_back({0, i, std::to_string(i)});
  Commit(*store, many);
  EXPECT_EQ(ValuesOf(store->RecordsAfter(0, 1)), Values{"200"});  // more than `most`
  // Old records go with those that come, a bounded number at once.
  Commit(*store, {.records = {{0, 1'400, "new"}}});
  EXPECT_EQ(ValuesOf(store->RecordsAfter(0, 1)), Values{"265"});
  for (int i = 0; i < 10; ++i) Commit(*store, {.records = {{0, 1'400, "new"}}});
  EXPECT_EQ(ValuesOf(store->RecordsAfter(0, 1)), Values{"400"});
  EXPECT_EQ(store->RecordsAfter(0, 999).value().size(), 111u);
}

TEST_P(StoreConformance, NobodysManyRecordsPushOutAnothersFew) {
  store->SetRecordBounds({.most = 100});
  for (int i = 0; i < 10; ++i) Commit(*store, {.records = {{0, 1, "few", "name:alice"}}});
  for (int i = 0; i < 50; ++i) {
    StoreTransaction flood;
    for (int j = 0; j < 40; ++j) flood.records.push_back({0, 2, std::to_string(40 * i + j), "name:eve"});
    Commit(*store, flood);
  }
  std::vector<std::string> few, many;
  const std::vector<StoreRecord> kept = store->RecordsAfter(0, 999).value();
  for (const StoreRecord& record : kept) (record.owner == "name:eve" ? many : few).push_back(record.value);
  EXPECT_EQ(few, Values(10, "few"));
  ASSERT_EQ(many.size(), 90u);
  EXPECT_EQ(many.front(), "1910");
  // Two who flood have half each.
  for (int i = 0; i < 200; ++i) Commit(*store, {.records = {{0, 3, "other", "name:mallory"}}});
  EXPECT_EQ(std::ranges::count(store->RecordsAfter(0, 999).value(), "name:alice", &StoreRecord::owner), 10);
  EXPECT_EQ(std::ranges::count(store->RecordsAfter(0, 999).value(), "name:eve", &StoreRecord::owner), 45);
  EXPECT_EQ(Commit(*store, {.records = {{0, 1, "x", std::string(513, 'o')}}}).reason,
            "a record's owner has 513 bytes: 512 can be");
}

}  // namespace
}  // namespace tessera
