#include "netaware/service/event_log.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "tests/netaware/store/around_store.h"

namespace tessera {
namespace {

AuditRecord Record(int64_t time_ms, const std::string& object, const std::string& holder = "name:alice") {
  return {.time_ms = time_ms,
          .actor = "name:boss",
          .action = "revoke",
          .object = object,
          .holder = holder,
          .servers = {"gpu7"},
          .text = "x"};
}

TEST(AuditRecord, IsReadAsItWasKeptAndMadePrintable) {
  AuditRecord record = Record(7, "a\nb");
  StoreRecord stored = StoredAudit(record);
  stored.number = 3;
  record.number = 3;
  record.object = "a?b";
  EXPECT_EQ(ReadAudit(stored).value(), record);
  EXPECT_TRUE(record.IsOf("gpu7") && record.IsOf("a?b") && record.IsOf("name:alice") && !record.IsOf("name:boss"));
  EXPECT_FALSE(record.IsOfServer());
  EXPECT_TRUE((AuditRecord{.action = "drain", .object = "gpu7"}.IsOfServer()));
  EXPECT_FALSE((AuditRecord{.action = "policy", .object = "file"}.IsOfServer()));
  for (size_t length = 0; length < stored.value.size(); ++length)
    EXPECT_FALSE(ReadAudit({.value = stored.value.substr(0, length)}).ok()) << length;
  EXPECT_FALSE(ReadAudit({.value = stored.value + "x"}).ok());
  // The store takes every record, whatever its text.
  record.actor = record.object = record.holder = record.text = std::string(100'000, 'x');
  record.servers.assign(100, std::string(100'000, 'x'));
  stored = StoredAudit(record);
  EXPECT_LE(stored.value.size(), Store::kRecordBytesMax);
  EXPECT_EQ(ReadAudit(stored).value().servers.size(), 8U);
}

// A store with its thread; stored records are passed on as the placer does.
class EventLogTest : public ::testing::Test {
 protected:
  ~EventLogTest() override { writer.End(); }
  void Add(std::vector<StoreRecord> records) {
    std::promise<void> done;
    writer.Commit({.records = records}, [&](const StoreResult& result) {
      log.Stored(result.record, records);
      done.set_value();
    });
    done.get_future().wait();
  }
  void Add(int from, int to) {
    std::vector<StoreRecord> records;
    for (int i = from; i < to; ++i) records.push_back(StoredAudit(Record(i, std::to_string(i))));
    Add(records);
  }
  EventPage List(EventQuestion question) {
    std::promise<EventPage> page;
    if (!question.sees) question.sees = [](const AuditRecord&) { return true; };
    if (!question.goes_on) question.goes_on = [] { return true; };
    log.List(std::move(question), [&](Result<EventPage> answer) { page.set_value(answer.value()); });
    return page.get_future().get();
  }
  // All that was to be done in the store's thread is done.
  void Settle() {
    for (int i = 0; i < 4; ++i) List({.until_ms = 1});
  }

  const std::unique_ptr<Store> store = MakeMemoryStore();
  StoreThread writer{*store};
  EventLog log{writer};
};

class Watcher : public EventWatcher {
 public:
  bool Watches() override { return watches; }
  void Take(const AuditRecord& record) override { taken.push_back(record.object); }
  void ThereIsMore(uint64_t number) override { more = number; }
  void Failed(const Status& why) override { failed = why.message(); }
  std::vector<std::string> taken;
  bool watches = true;
  uint64_t more = 0;
  std::string failed;
};

TEST_F(EventLogTest, TheNewestOfATimeAreTold) {
  const int many = 3 * static_cast<int>(EventLog::kPiece) + 7;
  Add(0, many);
  EventPage page = List({.since_ms = 100, .until_ms = 1'200, .most = 700});
  ASSERT_EQ(page.records.size(), 700U);
  EXPECT_EQ(page.records.front().object, "500");
  EXPECT_EQ(page.records.back().object, "1199");
  EXPECT_TRUE(page.more);
  EXPECT_EQ(page.last, store->last_record());
  page = List({.since_ms = 100, .until_ms = 1'200, .before = page.records.front().number, .most = 700});
  ASSERT_EQ(page.records.size(), 400U);
  EXPECT_EQ(page.records.front().object, "100");
  EXPECT_FALSE(page.more);
  page = List({.until_ms = many, .sees = [](const AuditRecord& record) { return record.object == "3"; }});
  ASSERT_EQ(page.records.size(), 1U);
  // Nobody wants it any more: it is not looked for to the end.
  page = List({.until_ms = many,
               .sees = [](const AuditRecord& record) { return record.object == "3"; },
               .goes_on = [] { return false; }});
  EXPECT_EQ(page.records.size(), 0U);
}

TEST_F(EventLogTest, AWatcherGetsEachOnceFromWhereItWants) {
  const uint64_t before = store->last_record();
  const int many = static_cast<int>(EventLog::kPiece) + 100;
  Add(0, many);
  const auto watcher = std::make_shared<Watcher>();
  log.Watch(before + 10, watcher);
  Settle();
  ASSERT_EQ(watcher->taken.size(), EventLog::kPiece);
  EXPECT_EQ(watcher->taken[0], "10");
  Add(many, many + 5);  // it has not asked for the rest yet
  EXPECT_EQ(watcher->taken.size(), EventLog::kPiece);
  log.Watch(watcher->more, watcher);
  Settle();
  Add(many + 5, many + 7);
  ASSERT_EQ(watcher->taken.size(), static_cast<size_t>(many) + 7 - 10);
  for (size_t i = 0; i < watcher->taken.size(); ++i) EXPECT_EQ(watcher->taken[i], std::to_string(i + 10));
  // One from the end on, and one that has gone.
  const auto last = std::make_shared<Watcher>();
  log.Watch(UINT64_MAX, last);
  Settle();
  log.Watch(0, std::make_shared<Watcher>());
  Settle();
  Add(1, 2);
  EXPECT_EQ(last->taken, std::vector<std::string>{"1"});
}

// 64 watchers of one tenant got a second's notes in 0.8 s, during which nothing was stored.
TEST_F(EventLogTest, WhatIsTooMuchToTellAtOnceIsRead) {
  const uint64_t before = store->last_record();
  std::vector<std::shared_ptr<Watcher>> watchers(EventLog::kToldAtOnceMax / 100 + 1);
  for (auto& watcher : watchers) log.Watch(before, watcher = std::make_shared<Watcher>());
  Settle();
  Add(0, 90);
  Add(90, 190);
  for (const auto& watcher : watchers) {
    EXPECT_EQ(watcher->taken.size(), 90U);
    EXPECT_EQ(watcher->more, before + 90);
  }
  Add(190, 200);
  log.Watch(watchers[0]->more, watchers[0]);
  Settle();
  Add(200, 201);
  ASSERT_EQ(watchers[0]->taken.size(), 201U);
  for (size_t i = 0; i < watchers[0]->taken.size(); ++i) EXPECT_EQ(watchers[0]->taken[i], std::to_string(i));
}

TEST_F(EventLogTest, NothingIsDoneForOneThatWatchesNoMore) {
  Add(0, 3);
  const auto before = std::make_shared<Watcher>(), after = std::make_shared<Watcher>();
  before->watches = false;
  log.Watch(0, before);
  log.Watch(UINT64_MAX, after);
  Settle();
  EXPECT_TRUE(before->taken.empty());
  Add(3, 4);
  after->watches = false;
  Add(4, 5);
  EXPECT_EQ(after->taken, std::vector<std::string>{"3"});
}

class UnreadableStore : public AroundStore {
 public:
  Result<std::vector<StoreRecord>> RecordsAfter(uint64_t, size_t) const override {
    return Status(StatusCode::kUnavailable, "the disk is gone");
  }
};

TEST(EventLog, WhoWatchesAStoreThatCannotBeReadIsToldSo) {
  UnreadableStore store;
  StoreThread writer(store);
  EventLog log(writer);
  const auto watcher = std::make_shared<Watcher>();
  log.Watch(0, watcher);
  std::promise<void> done;
  writer.Read([&](const Store&) { done.set_value(); });
  done.get_future().wait();
  writer.End();
  EXPECT_EQ(watcher->failed, "the disk is gone");
}

TEST_F(EventLogTest, WhoAsksDoesNotMakeWritesMore) {
  const uint64_t writes = writer.writes();
  for (int i = 0; i < 100; ++i) List({.until_ms = 1});
  EXPECT_EQ(writer.writes(), writes);
}

}  // namespace
}  // namespace tessera
