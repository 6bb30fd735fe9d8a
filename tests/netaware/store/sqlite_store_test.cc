#include "netaware/store/sqlite_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "tests/netaware/store/some_store.h"

namespace tessera {
namespace {

using Outcome = StoreResult::Outcome;

std::unique_ptr<Store> MustOpen(const std::string& path) {
  auto opened = OpenSqliteStore(path);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return opened.ok() ? std::move(opened).value() : nullptr;
}

Status WhyNot(const std::string& path) {
  const auto opened = OpenSqliteStore(path);
  EXPECT_FALSE(opened.ok());
  return opened.ok() ? Status::Ok() : opened.status();
}

void Execute(const std::string& path, const char* sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

TEST(SqliteStore, IsThereAgainWithALargerEpoch) {
  const StoreDirectory directory;
  auto store = MustOpen(directory.File());
  EXPECT_EQ(store->epoch(), 1u);
  Commit(*store, Put("a", "1")), Commit(*store, Put("b", "2"));
  Commit(*store, {.changes = {{"a", std::nullopt}}});
  store.reset();
  store = MustOpen(directory.File());
  EXPECT_EQ(store->epoch(), 2u);
  EXPECT_EQ(store->revision(), 3u);
  EXPECT_EQ(store->Range(""), (std::vector<StoreEntry>{{"b", "2", 2}}));
  EXPECT_EQ(Commit(*store, Put("b", "3", {{"b", 2}})).revision, 4u);
  // Changes before that are not known any more.
  EXPECT_FALSE(store->Since(2).ok());
  EXPECT_EQ(store->Since(3).value().size(), 1u);
}

TEST(SqliteStore, IsOfOneProcess) {
  const StoreDirectory directory;
  auto store = MustOpen(directory.File());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto opened = OpenSqliteStore(directory.File());
    _exit(!opened.ok() && opened.status().code() == StatusCode::kUnavailable ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(WhyNot(directory.File()).message(),
            directory.File() + ": another placer has this store: end it, or name another file");
  EXPECT_EQ(Commit(*store, Put("a", "1")).outcome, Outcome::kDone);
  store.reset();
  EXPECT_EQ(MustOpen(directory.File())->epoch(), 2u);
}

TEST(SqliteStore, IsItsOwnersAlone) {
  const StoreDirectory directory;
  const auto store = MustOpen(directory.File());
  Commit(*store, Put("a", "1"));
  for (const char* suffix : {"", "-wal"}) {
    struct stat about {};
    ASSERT_EQ(stat((directory.File() + suffix).c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u) << suffix;
  }
}

TEST(SqliteStore, WhatIsNoStoreIsNotOpened) {
  const StoreDirectory directory;
  EXPECT_EQ(WhyNot(directory.File() + "/in/none").code(), StatusCode::kNotFound);
  const std::string path = directory.File();
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_EQ(WhyNot(path).message(), path + ": this is no store, or it is damaged: name another file, or bring a copy back");
  std::filesystem::remove(path);
  Execute(path, "CREATE TABLE theirs (x)");
  EXPECT_EQ(WhyNot(path).message(), path + ": this is a database of another program: name another file");
  std::filesystem::remove(path);
  MustOpen(path);
  Execute(path, "PRAGMA user_version = 4");
  EXPECT_EQ(WhyNot(path).message(), path + ": a newer release has written this store (form 4, 3 is known): use that one");
}

TEST(SqliteStore, OneOfTheFormBeforeIsTakenOverWithAllThatItHas) {
  const StoreDirectory directory;
  const std::string path = directory.File();
  // As release 1 made and filled it.
  Execute(path,
          "PRAGMA application_id = 1953722960; PRAGMA user_version = 1;"
          "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) WITHOUT ROWID;"
          "CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
          "INSERT INTO numbers VALUES ('epoch', 6), ('revision', 41); INSERT INTO entries VALUES (x'61', x'31', 40)");
  auto store = MustOpen(path);
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->epoch(), 7u);
  EXPECT_EQ(store->Range(""), (std::vector<StoreEntry>{{"a", "1", 40}}));
  EXPECT_EQ(store->last_record(), 0u);
  EXPECT_EQ(Commit(*store, {.changes = {{"b", "2"}}, .records = {{0, 5, "b"}}}).record, 1u);
  store.reset();
  store = MustOpen(path);
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->epoch(), 8u);
  EXPECT_EQ(store->revision(), 42u);
  EXPECT_EQ(store->RecordsAfter(0, 9).value(), (std::vector<StoreRecord>{{1, 5, "b"}}));
}

TEST(SqliteStore, RecordsOfTheFormBeforeAreTakenOver) {
  const StoreDirectory directory;
  const std::string path = directory.File();
  // As release 2 made and filled it.
  Execute(path,
          "PRAGMA application_id = 1953722960; PRAGMA user_version = 2;"
          "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) WITHOUT ROWID;"
          "CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
          "CREATE TABLE records (number INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, value BLOB NOT NULL);"
          "INSERT INTO numbers VALUES ('epoch', 6), ('revision', 41); INSERT INTO entries VALUES (x'61', x'31', 40), (x'62', "
          "x'', 41);"
          "INSERT INTO records VALUES (7, 1000, x'72'), (8, 1001, x'73')");
  for (uint64_t epoch : {7u, 8u}) {
    const auto store = MustOpen(path);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->epoch(), epoch);
    EXPECT_EQ(store->Range(""), (std::vector<StoreEntry>{{"a", "1", 40}, {"b", "", 41}}));
    EXPECT_EQ(store->RecordsAfter(0, 9).value(), (std::vector<StoreRecord>{{7, 1000, "r"}, {8, 1001, "s"}}));
  }
}

TEST(SqliteStore, RecordsOutliveTheirStoreAndNumbersGoOn) {
  const StoreDirectory directory;
  auto store = MustOpen(directory.File());
  Commit(*store, {.records = {{0, 10, "one"}, {0, 11, "two"}}});
  store.reset();
  store = MustOpen(directory.File());
  EXPECT_EQ(store->last_record(), 2u);
  EXPECT_EQ(Commit(*store, {.records = {{0, 12, "three"}}}).record, 3u);
  EXPECT_EQ(store->RecordsAfter(1, 9).value(), (std::vector<StoreRecord>{{2, 11, "two"}, {3, 12, "three"}}));
}

TEST(SqliteStore, ADamagedOneIsNotOpened) {
  const StoreDirectory directory;
  const std::string path = directory.File();
  {
    auto store = MustOpen(path);
    for (int i = 0; i < 100; ++i) Commit(*store, Put("key" + std::to_string(i), std::string(1000, 'v')));
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 * 5);
    file << std::string(4096 * 4, '\x5a');
  }
  EXPECT_EQ(WhyNot(path).code(), StatusCode::kInvalidArgument);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The files that a killed process leaves of a store: some of it is in the log alone.
class KilledStore {
 public:
  KilledStore() {
    const auto store = MustOpen(directory_.File());
    for (int i = 0; i < 40; ++i) {
      Commit(*store, {.changes = {{"grants/" + std::to_string(i), "grant " + std::to_string(i * 7919)}},
                      .records = {{0, i, "record " + std::to_string(i), "name:alice"}}});
    }
    entries_ = store->Range("");
    records_ = store->RecordsAfter(0, 1'000).value();
    for (const char* suffix : kSuffixes) {
      files_.push_back(ReadFile(directory_.File() + suffix));
    }
  }

  static constexpr const char* kSuffixes[] = {"", "-wal", "-last"};
  std::vector<std::string> files() const { return files_; }
  static void WriteFiles(const std::vector<std::string>& files, const std::string& path) {
    for (size_t i = 0; i < files.size(); ++i) std::ofstream(path + kSuffixes[i], std::ios::binary) << files[i];
  }
  // Writes them anew, and opens what that is. Ok: it has all that there was.
  Status Open(const std::vector<std::string>& files) const {
    const StoreDirectory place;
    WriteFiles(files, place.File());
    auto opened = OpenSqliteStore(place.File());
    if (!opened.ok()) {
      if (files.size() > 1) {
        EXPECT_TRUE(ReadFile(place.File() + "-wal") == files[1]) << "the log is another one now";
      }
      return opened.status();
    }
    EXPECT_EQ((*opened)->Range(""), entries_);
    EXPECT_EQ((*opened)->RecordsAfter(0, 1'000).value(), records_);
    return Status::Ok();
  }
  // The revision that is left if somebody removes the files that show that something is lost.
  static uint64_t RevisionWithout(const std::vector<std::string>& files) {
    const StoreDirectory place;
    WriteFiles({files[0], files[1]}, place.File());
    const auto store = MustOpen(place.File());
    return store == nullptr ? UINT64_MAX : store->revision();
  }

 private:
  const StoreDirectory directory_;
  std::vector<StoreEntry> entries_;
  std::vector<StoreRecord> records_;
  std::vector<std::string> files_;
};

TEST(SqliteStore, ALogThatLostWhatWasAnsweredIsNoticed) {
  const KilledStore killed;
  ASSERT_TRUE(killed.Open(killed.files()).ok());
  ASSERT_GT(killed.files()[1].size(), 100'000u);
  for (const size_t place : {size_t{20}, size_t{40}, killed.files()[1].size() / 2, killed.files()[1].size() - 100}) {
    std::vector<std::string> files = killed.files();
    files[1][place] = static_cast<char>(files[1][place] ^ 4);
    const Status why = killed.Open(files);
    EXPECT_EQ(why.code(), StatusCode::kInvalidArgument) << place;
    EXPECT_NE(why.message().find("of its 40 transactions are lost: bring a copy back, or remove"), std::string::npos)
        << why.message();
    EXPECT_LT(killed.RevisionWithout(files), 40u);
  }
  std::vector<std::string> without = killed.files();
  without[1].clear();
  EXPECT_FALSE(killed.Open(without).ok());
}

TEST(SqliteStore, ACopyOfAnEarlierStartMayBeBroughtBack) {
  const StoreDirectory directory;
  MustOpen(directory.File());
  std::filesystem::copy_file(directory.File(), directory.File() + ".copy");
  Commit(*MustOpen(directory.File()), Put("a", "1"));
  std::filesystem::rename(directory.File() + ".copy", directory.File());
  const auto store = MustOpen(directory.File());
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->epoch(), 2u);
}

TEST(SqliteStore, AnyDamageIsNoticedOrHarmless) {
  const KilledStore killed;
  std::vector<std::string> whole = killed.files();
  {
    // Half of the damages are to one whose log is in its file.
    const StoreDirectory place;
    KilledStore::WriteFiles(whole, place.File());
    MustOpen(place.File());
    whole = {ReadFile(place.File())};
  }
  std::minstd_rand random(7);
  int noticed = 0;
  for (int round = 0; round < 120; ++round) {
    std::vector<std::string> files = round % 2 == 0 ? whole : killed.files();
    std::string& damaged = files[round % 2 == 0 ? 0 : 1];
    const size_t place = random() % damaged.size();
    if (round % 4 < 2) {
      damaged[place] = static_cast<char>(damaged[place] ^ (1 << random() % 8));
    } else {
      for (size_t i = place; i < std::min(damaged.size(), place + 64); ++i) damaged[i] = static_cast<char>(random());
    }
    noticed += killed.Open(files).ok() ? 0 : 1;  // which looks whether all is there, else
  }
  EXPECT_GT(noticed, 40);
}

TEST(SqliteStore, RowsThatAreMissingOrOthersAreNoticed) {
  const StoreDirectory directory;
  const std::string path = directory.File();
  for (const auto& [sql, says] : {
           std::pair{"UPDATE entries SET value = x'31' WHERE key = x'62'", "'b' is not what was written"},
           std::pair{"UPDATE records SET owner = x'31'", "record 1 is not what was written"},
           std::pair{"DELETE FROM entries WHERE key = x'62'", "rows are missing, or numbers are not what was written"},
           std::pair{"DELETE FROM records", "rows are missing, or numbers are not what was written"},
           std::pair{"UPDATE numbers SET value = value - 1 WHERE name = 'epoch'", "rows are missing"},
       }) {
    for (const char* suffix : KilledStore::kSuffixes) std::filesystem::remove(path + suffix);
    Commit(*MustOpen(path), {.changes = {{"a", "1"}, {"b", "2"}}, .records = {{0, 5, "r"}}});
    Execute(path, sql);
    const Status why = WhyNot(path);
    EXPECT_EQ(why.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(why.message().find(path + ": this store is damaged: " + says), std::string::npos) << why.message();
  }
}

TEST(SqliteStore, ACommitThatTheDiskRefusesHasChangedNothing) {
  const StoreDirectory directory;
  auto store = MustOpen(directory.File());
  ASSERT_EQ(Commit(*store, Put("a", "1")).outcome, Outcome::kDone);
  // Files of this process may not grow: as on a full disk.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{64 * 1024, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const std::vector<StoreTransaction> large = {
      Put("a", std::string(60'000, 'x')), Put("b", std::string(60'000, 'x')), {.changes = {}}, {.records = {{0, 1, "lost"}}}};
  const std::vector<StoreResult> failed = store->Commit(large);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(failed[0].outcome, Outcome::kFailed);
  EXPECT_TRUE(failed[1].reason.starts_with(directory.File() + ": ")) << failed[1].reason;
  EXPECT_EQ(failed[2].outcome, Outcome::kInvalid);
  EXPECT_EQ(failed[3].outcome, Outcome::kFailed);
  EXPECT_TRUE(store->RecordsAfter(0, 9).value().empty());
  EXPECT_EQ(store->Range(""), (std::vector<StoreEntry>{{"a", "1", 1}}));
  EXPECT_EQ(Commit(*store, large[0]).revision, 2u);
  store.reset();
  EXPECT_EQ(MustOpen(directory.File())->Get("a")->revision, 2u);
}

TEST(SqliteStore, WhatWasAnsweredOutlivesAKilledProcess) {
  const StoreDirectory directory;
  for (int round = 0; round < 5; ++round) {
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto opened = OpenSqliteStore(directory.File());
      if (!opened.ok()) _exit(1);
      for (uint64_t i = 0;; ++i) {
        const StoreResult done = Commit(**opened, Put("grants/" + std::to_string(i % 50), std::string(i % 3000, 'g')));
        if (done.outcome != Outcome::kDone || write(pipes[1], &done.revision, sizeof(done.revision)) < 0) _exit(1);
      }
    }
    close(pipes[1]);
    uint64_t answered = 0, one = 0;
    ASSERT_EQ(read(pipes[0], &answered, sizeof(answered)), ssize_t{sizeof(answered)});
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 20 * round));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    while (read(pipes[0], &one, sizeof(one)) == sizeof(one)) answered = one;
    close(pipes[0]);
    const auto store = MustOpen(directory.File());
    EXPECT_GE(store->revision(), answered);
    EXPECT_EQ(store->epoch(), static_cast<uint64_t>(2 * round + 2));
  }
}

}  // namespace
}  // namespace tessera
