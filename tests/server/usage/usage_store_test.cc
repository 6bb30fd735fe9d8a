// The database of usage records: sums, who sees them, what is damaged, full or locked.
#include "server/usage/usage_store.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "tests/server/usage/usage_fixture.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

class UsageStoreTest : public UsageDirectoryTest {
 protected:
  UsageStore Open() {
    Result<UsageStore> store = UsageStore::Open(directory_);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::move(store).value();
  }
  static void Put(UsageStore& store, int64_t second, std::vector<UsageBatch::Record> records) {
    const UsageBatch batch{second, std::move(records)};
    const Status status = store.Write(std::span(&batch, 1));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  static std::vector<UsageAnswer::Row> Ask(UsageStore& store, const UsageQuery& query) {
    Result<std::vector<UsageAnswer::Row>> rows = store.Ask(query);
    EXPECT_TRUE(rows.ok()) << rows.status().message();
    return rows.ok() ? *rows : std::vector<UsageAnswer::Row>();
  }
  // In the file, as another program would.
  void Execute(const char* sql) {
    sqlite3* file = nullptr;
    ASSERT_EQ(sqlite3_open(database().c_str(), &file), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(file, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(file);
    sqlite3_close(file);
  }
};

TEST_F(UsageStoreTest, SumsByTimeAndVgpu) {
  {
    UsageStore store = Open();
    Put(store, 3'599, {UsageRecord("a", {1, 10, 100, 50, 1000}), UsageRecord("b", {7, 0, 0, 0, 0})});
    Put(store, 3'600, {UsageRecord("a", {2, 20, 200, 40, 2000})});
    Put(store, 3'601, {UsageRecord("a", {4, 40, 400, 60, 4000})});
  }
  UsageStore again = Open();  // it is there after a restart
  const auto all = Ask(again, UsageOf(""));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0], (UsageAnswer::Row{"a", "GPU-1", 0, 3, {7, 70, 700, 60, 7000}}));
  EXPECT_EQ(all[1].name, "b");
  const auto hours = Ask(again, UsageOf("a", 0, 10'000, 3'600));
  ASSERT_EQ(hours.size(), 2U);
  EXPECT_EQ(hours[0], (UsageAnswer::Row{"a", "GPU-1", 0, 1, {1, 10, 100, 50, 1000}}));
  EXPECT_EQ(hours[1], (UsageAnswer::Row{"a", "GPU-1", 3'600, 2, {6, 60, 600, 60, 6000}}));
  EXPECT_EQ(Ask(again, UsageOf("a", 3'600, 3'601)).at(0).sums.busy_us, 2U);
  EXPECT_TRUE(Ask(again, UsageOf("c")).empty());
  EXPECT_TRUE(Ask(again, UsageOf("' OR 1=1 --")).empty());
}

TEST_F(UsageStoreTest, ASecondThatComesTwiceIsAdded) {
  UsageStore store = Open();
  Put(store, 5, {UsageRecord("a", {1, 1, 1, 5, 1})});
  Put(store, 5, {UsageRecord("a", {2, 2, 2, 4, 2})});
  EXPECT_EQ(Ask(store, UsageOf("a")).at(0), (UsageAnswer::Row{"a", "GPU-1", 0, 1, {3, 3, 3, 5, 3}}));
}

TEST_F(UsageStoreTest, KindsOfMemoryAreThoseOfTheLargestPeak) {
  const auto holding = [](uint64_t allocations, uint64_t variables, const char* owners = "*") {
    UsageBatch::Record record = UsageRecord("a", {0, 0, 0, allocations + variables, 0}, owners);
    record.sums.memory_peak_by_kind[0] = allocations;
    record.sums.memory_peak_by_kind[4] = variables;
    return record;
  };
  const auto kinds = [](uint64_t allocations, uint64_t variables) { return MemoryByKind{allocations, 0, 0, 0, variables}; };
  UsageStore store = Open();
  Put(store, 1, {holding(10, 1)});
  Put(store, 2, {holding(5, 2)});
  EXPECT_EQ(Ask(store, UsageOf("a")).at(0).sums.memory_peak_by_kind, kinds(10, 1));
  EXPECT_EQ(Ask(store, UsageOf("a", 2)).at(0).sums.memory_peak_by_kind, kinds(5, 2));
  // The same second again: less changes nothing, more is the peak with all its kinds.
  Put(store, 2, {holding(0, 6)});
  EXPECT_EQ(Ask(store, UsageOf("a", 2)).at(0).sums.memory_peak_by_kind, kinds(5, 2));
  Put(store, 2, {holding(1, 30)});
  EXPECT_EQ(Ask(store, UsageOf("a")).at(0).sums.memory_peak_by_kind, kinds(1, 30));
  // The same name, made anew for others: one row for an administrator.
  Put(store, 3, {holding(50, 0, "uid:1")});
  const auto rows = Ask(store, UsageOf("a"));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].sums.memory_peak_bytes, 50U);
  EXPECT_EQ(rows[0].sums.memory_peak_by_kind, kinds(50, 0));
}

// As the release before kinds of memory made it.
constexpr const char* kFormat1 =
    "CREATE TABLE vgpu(id INTEGER PRIMARY KEY, name TEXT NOT NULL, gpu TEXT NOT NULL, owners TEXT NOT NULL,"
    " UNIQUE(name, gpu, owners));"
    "CREATE TABLE usage(vgpu INTEGER NOT NULL, second INTEGER NOT NULL, busy_us INTEGER NOT NULL, wait_us INTEGER NOT NULL,"
    " active_us INTEGER NOT NULL, memory_peak_bytes INTEGER NOT NULL, launches INTEGER NOT NULL,"
    " PRIMARY KEY(vgpu, second)) WITHOUT ROWID;"
    "PRAGMA application_id=1416983399; PRAGMA user_version=1;"
    "INSERT INTO vgpu VALUES(1, 'a', 'GPU-1', '*'); INSERT INTO usage VALUES(1, 7, 1, 2, 3, 40, 5);";

TEST_F(UsageStoreTest, AFileOfTheReleaseBeforeGoesOn) {
  Execute(kFormat1);
  for (int opened = 0; opened < 2; ++opened) {
    UsageStore store = Open();
    EXPECT_EQ(Ask(store, UsageOf("a", 0, 8)).at(0), (UsageAnswer::Row{"a", "GPU-1", 0, 1, {1, 2, 3, 40, 5}}));
    UsageBatch::Record record = UsageRecord("a", {1, 0, 0, 90, 0});
    record.sums.memory_peak_by_kind[1] = 90;
    Put(store, 8, {record});
    EXPECT_EQ(Ask(store, UsageOf("a")).at(0).sums.memory_peak_by_kind[1], 90U);
  }
}

TEST_F(UsageStoreTest, AFileOfANewerReleaseIsLeftAlone) {
  Open();
  Execute("PRAGMA user_version=3");
  const Result<UsageStore> store = UsageStore::Open(directory_);
  EXPECT_EQ(store.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(store.status().message(), HasSubstr("or of a newer release: move it away"));
}

TEST_F(UsageStoreTest, OwnersSeeWhatWasTheirs) {
  UsageStore store = Open();
  Put(store, 1, {UsageRecord("a", {1, 0, 0, 0, 0}, "uid:1,uid:2"), UsageRecord("open", {8, 0, 0, 0, 0})});
  Put(store, 2,
      {UsageRecord("a", {2, 0, 0, 0, 0}, "uid:3"), UsageRecord("closed", {9, 0, 0, 0, 0}, "")});  // made anew for another
  const auto busy_of_a = [&](const char* holder) {
    UsageQuery query = UsageOf("");
    query.sees_all = false;
    query.holder = holder;
    uint64_t sum = 0;
    for (const UsageAnswer::Row& row : Ask(store, query)) {
      EXPECT_NE(row.name, "closed");
      if (row.name == "a") sum += row.sums.busy_us;
    }
    return sum;
  };
  EXPECT_EQ(busy_of_a("uid:1"), 1U);
  EXPECT_EQ(busy_of_a("uid:2"), 1U);
  EXPECT_EQ(busy_of_a("uid:3"), 2U);
  EXPECT_EQ(busy_of_a("uid:4"), 0U);
  EXPECT_EQ(busy_of_a("uid:"), 0U);
  EXPECT_EQ(busy_of_a(""), 0U);
  EXPECT_EQ(Ask(store, UsageOf("a")).at(0).sums.busy_us, 3U);
  EXPECT_EQ(Ask(store, UsageOf("")).size(), 3U);
}

TEST_F(UsageStoreTest, OldOnesGo) {
  UsageStore store = Open();
  Put(store, 10, {UsageRecord("a", {1, 0, 0, 0, 0}), UsageRecord("b", {1, 0, 0, 0, 0})});
  Put(store, 20, {UsageRecord("a", {2, 0, 0, 0, 0})});
  ASSERT_TRUE(store.DropBefore(20).ok());
  EXPECT_EQ(Ask(store, UsageOf("")).size(), 1U);
  EXPECT_EQ(Ask(store, UsageOf("a")).at(0).sums.busy_us, 2U);
  Put(store, 30, {UsageRecord("b", {5, 0, 0, 0, 0})});  // its number is another now
  EXPECT_EQ(Ask(store, UsageOf("b")).at(0).sums.busy_us, 5U);
}

TEST_F(UsageStoreTest, TooManySumsAreRefused) {
  UsageStore store = Open();
  std::vector<UsageBatch> batches;
  for (int64_t minute = 0; minute <= static_cast<int64_t>(kUsageRowsMax); ++minute)
    batches.push_back({60 * minute, {UsageRecord("a", {1, 0, 0, 0, 0})}});
  ASSERT_TRUE(store.Write(batches).ok());
  const auto rows = store.Ask(UsageOf("a", 0, 60'000'000, 60));
  EXPECT_EQ(rows.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(rows.status().message(), HasSubstr("more than 10000 sums"));
  EXPECT_EQ(Ask(store, UsageOf("a", 0, 60'000'000)).at(0).seconds, kUsageRowsMax + 1);
}

TEST_F(UsageStoreTest, WhatIsNoDatabaseIsRefused) {
  std::ofstream(database()) << std::string(8192, 'x');
  const Result<UsageStore> store = UsageStore::Open(directory_);
  EXPECT_EQ(store.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(store.status().message(), HasSubstr(database()));
  EXPECT_THAT(store.status().message(), HasSubstr("it is damaged: move it away"));
}

TEST_F(UsageStoreTest, AnothersDatabaseIsRefused) {
  Execute("CREATE TABLE mine(a)");
  const Result<UsageStore> store = UsageStore::Open(directory_);
  EXPECT_EQ(store.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(store.status().message(), HasSubstr("no database of usage records"));
}

TEST_F(UsageStoreTest, OneThatIsDamagedLaterSaysSoAndNeverCrashes) {
  {
    UsageStore store = Open();
    std::vector<UsageBatch> batches;
    for (int64_t second = 0; second < 20'000; ++second) batches.push_back({second, {UsageRecord("a", {1, 2, 3, 4, 5})}});
    ASSERT_TRUE(store.Write(batches).ok());
  }
  std::fstream file(database(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3 * 4096);
  for (int i = 0; i < 60; ++i) file << std::string(4096, '\xA5');
  file.close();
  Result<UsageStore> store = UsageStore::Open(directory_);
  const Status status = store.ok() ? store->Ask(UsageOf("a")).status() : store.status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("damaged"));
}

TEST_F(UsageStoreTest, AFullDiskWritesAllOrNothing) {
  UsageStore store = Open();
  Put(store, 1, {UsageRecord("a", {1, 0, 0, 0, 0})});
  // As a disk that is full: no file may grow any more.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{std::filesystem::file_size(database()) + 4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  std::vector<UsageBatch> batches;
  for (int64_t second = 2; second < 20'000; ++second) batches.push_back({second, {UsageRecord("a", {1, 0, 0, 0, 0})}});
  const Status status = store.Write(batches);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(Ask(store, UsageOf("a")).at(0).seconds, 1U);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(store.Write(batches).ok());
  EXPECT_EQ(Ask(store, UsageOf("a")).at(0).seconds, 19'999U);
}

TEST_F(UsageStoreTest, ADirectoryThatIsNotThere) {
  const Result<UsageStore> store = UsageStore::Open(directory_ + "/nowhere");
  EXPECT_EQ(store.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(store.status().message(), HasSubstr("/nowhere/usage.sqlite: unable to open database file"));
}

}  // namespace
}  // namespace tessera
