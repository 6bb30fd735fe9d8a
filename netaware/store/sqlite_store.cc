#include "netaware/store/sqlite_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "netaware/store/store_image.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

constexpr int kApplication = 0x74737250;  // "tsrP", SQLite's mark of whose file it is
constexpr int kSchema = 2;
constexpr const char* kMakeRecords =
    "CREATE TABLE records (number INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, value BLOB NOT NULL);";

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct EndStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, EndStatement>;

Status ErrorOf(sqlite3* database, const std::string& path, int result) {
  const auto say = [&](StatusCode code, std::string_view what) { return Status(code, fmt::format("{}: {}", path, what)); };
  switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return say(StatusCode::kUnavailable, "another placer has this store: end it, or name another file");
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return say(StatusCode::kPermissionDenied, "the store cannot be written: give this user the file and its directory");
    case SQLITE_FULL: return say(StatusCode::kResourceExhausted, "the disk is full: make room, nothing is granted until then");
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return say(StatusCode::kInvalidArgument, "this is no store, or it is damaged: name another file, or bring a copy back");
    default: return say(StatusCode::kInternal, fmt::format("SQLite says: {}", sqlite3_errmsg(database)));
  }
}

class SqliteStore : public Store {
 public:
  SqliteStore(std::string path, Database database) : path_(std::move(path)), database_(std::move(database)) {}

  Status Open();

  std::optional<StoreEntry> Get(std::string_view key) const override { return image_.Get(key); }
  std::vector<StoreEntry> Range(std::string_view prefix) const override { return image_.Range(prefix); }
  std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) override;
  Result<std::vector<StoreEvent>> Since(uint64_t revision) const override { return image_.Since(revision); }
  Result<std::vector<StoreRecord>> RecordsAfter(uint64_t number, size_t most) const override {
    return Records(after_, number, most);
  }
  Result<std::vector<StoreRecord>> RecordsBefore(uint64_t number, size_t most) const override {
    Result<std::vector<StoreRecord>> found = Records(before_, number, most);
    if (found.ok()) std::reverse(found->begin(), found->end());
    return found;
  }
  uint64_t last_record() const override { return image_.last_record(); }
  void SetRecordBounds(const RecordBounds& bounds) override { bounds_ = bounds; }
  uint64_t revision() const override { return image_.revision(); }
  uint64_t epoch() const override { return epoch_; }

 private:
  Status Run(const char* sql);
  Status Number(const char* sql, int64_t* number);
  Result<Statement> Prepare(const char* sql);
  // Of a statement that gives nothing back. It is as new afterwards.
  Status Step(const Statement& statement);
  Status MakeTables();
  Status Read();
  Status Write(const StoreImage::Plan& plan);
  Status WriteRecords(const std::vector<StoreRecord>& records);
  Result<std::vector<StoreRecord>> Records(const Statement& statement, uint64_t number, size_t most) const;
  Status Bind(int result) const { return result == SQLITE_OK ? Status::Ok() : ErrorOf(database_.get(), path_, result); }

  const std::string path_;
  const Database database_;
  Statement put_, remove_, set_revision_, add_record_, after_, before_, remove_records_;
  StoreImage image_;
  RecordBounds bounds_;
  uint64_t epoch_ = 0;
};

Status SqliteStore::Run(const char* sql) {
  const int result = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? Status::Ok() : ErrorOf(database_.get(), path_, result);
}

Result<Statement> SqliteStore::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr);
  if (result != SQLITE_OK) return ErrorOf(database_.get(), path_, result);
  return Statement(statement);
}

Status SqliteStore::Number(const char* sql, int64_t* number) {
  Result<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const int result = sqlite3_step(statement->get());
  if (result != SQLITE_ROW) return ErrorOf(database_.get(), path_, result);
  *number = sqlite3_column_int64(statement->get(), 0);
  return Status::Ok();
}

Status SqliteStore::Step(const Statement& statement) {
  const int result = sqlite3_step(statement.get());
  sqlite3_reset(statement.get());
  return result == SQLITE_DONE ? Status::Ok() : ErrorOf(database_.get(), path_, result);
}

Status SqliteStore::MakeTables() {
  int64_t application = 0, tables = 0, schema = 0;
  RETURN_IF_ERROR(Number("PRAGMA application_id", &application));
  RETURN_IF_ERROR(Number("SELECT count(*) FROM sqlite_schema", &tables));
  RETURN_IF_ERROR(Number("PRAGMA user_version", &schema));
  if (application != kApplication && tables != 0) {
    return Status(StatusCode::kInvalidArgument, path_ + ": this is a database of another program: name another file");
  }
  if (schema > kSchema) {
    return Status(
        StatusCode::kVersionMismatch,
        fmt::format("{}: a newer release has written this store (form {}, {} is known): use that one", path_, schema, kSchema));
  }
  if (schema == kSchema) return Status::Ok();
  if (schema == 1) return Run(fmt::format("PRAGMA user_version = {}; {}", kSchema, kMakeRecords).c_str());
  return Run(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};"
                  "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) WITHOUT ROWID;"
                  "CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
                  "INSERT INTO numbers VALUES ('epoch', 0), ('revision', 0); {}",
                  kApplication, kSchema, kMakeRecords)
          .c_str());
}

Status SqliteStore::Read() {
  int64_t epoch = 0, revision = 0, last_record = 0;
  RETURN_IF_ERROR(Number("SELECT value FROM numbers WHERE name = 'epoch'", &epoch));
  RETURN_IF_ERROR(Number("SELECT value FROM numbers WHERE name = 'revision'", &revision));
  RETURN_IF_ERROR(Number("SELECT coalesce(max(number), 0) FROM records", &last_record));
  Result<Statement> rows = Prepare("SELECT key, value, revision FROM entries");
  if (!rows.ok()) return rows.status();
  std::vector<StoreEntry> entries;
  const auto bytes = [&](int column) {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(rows->get(), column));
    const auto size = static_cast<size_t>(sqlite3_column_bytes(rows->get(), column));
    return data == nullptr ? std::string() : std::string(data, size);
  };
  int result = sqlite3_step(rows->get());
  for (; result == SQLITE_ROW; result = sqlite3_step(rows->get())) {
    entries.push_back({bytes(0), bytes(1), static_cast<uint64_t>(sqlite3_column_int64(rows->get(), 2))});
  }
  if (result != SQLITE_DONE) return ErrorOf(database_.get(), path_, result);
  image_.Load(std::move(entries), static_cast<uint64_t>(revision), static_cast<uint64_t>(last_record));
  epoch_ = static_cast<uint64_t>(epoch);
  return Status::Ok();
}

Status SqliteStore::Open() {
  sqlite3_extended_result_codes(database_.get(), 1);
  // The lock is taken by the first transaction, and kept: another process cannot have the file meanwhile.
  RETURN_IF_ERROR(Run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; BEGIN IMMEDIATE"));
  RETURN_IF_ERROR(MakeTables());
  int64_t sound = 0;
  RETURN_IF_ERROR(Number("SELECT count(*) FROM pragma_quick_check WHERE quick_check = 'ok'", &sound));
  if (sound != 1) return ErrorOf(database_.get(), path_, SQLITE_CORRUPT);
  RETURN_IF_ERROR(Run("UPDATE numbers SET value = value + 1 WHERE name = 'epoch'; COMMIT"));
  RETURN_IF_ERROR(Read());
  for (const auto& [statement, sql] :
       {std::pair{&put_, "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)"},
        std::pair{&remove_, "DELETE FROM entries WHERE key = ?"}, std::pair{&add_record_, "INSERT INTO records VALUES (?, ?, ?)"},
        std::pair{&after_, "SELECT * FROM records WHERE number > ? ORDER BY number LIMIT ?"},
        std::pair{&before_, "SELECT * FROM records WHERE number < ? ORDER BY number DESC LIMIT ?"},
        std::pair{&remove_records_, "DELETE FROM records WHERE number <= ?"},
        std::pair{&set_revision_, "UPDATE numbers SET value = ? WHERE name = 'revision'"}}) {
    Result<Statement> prepared = Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = std::move(prepared).value();
  }
  return Status::Ok();
}

Status SqliteStore::Write(const StoreImage::Plan& plan) {
  RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  for (const auto& [revision, change] : plan.events) {
    const Statement& statement = change.value ? put_ : remove_;
    const auto bind = [&](int place, const std::string& bytes) {
      return Bind(sqlite3_bind_blob64(statement.get(), place, bytes.data(), bytes.size(), SQLITE_STATIC));
    };
    RETURN_IF_ERROR(bind(1, change.key));
    if (change.value) {
      RETURN_IF_ERROR(bind(2, *change.value));
      RETURN_IF_ERROR(Bind(sqlite3_bind_int64(statement.get(), 3, static_cast<int64_t>(revision))));
    }
    RETURN_IF_ERROR(Step(statement));
  }
  RETURN_IF_ERROR(Bind(sqlite3_bind_int64(set_revision_.get(), 1, static_cast<int64_t>(plan.revision))));
  RETURN_IF_ERROR(Step(set_revision_));
  RETURN_IF_ERROR(WriteRecords(plan.records));
  return Run("COMMIT");
}

Status SqliteStore::WriteRecords(const std::vector<StoreRecord>& records) {
  if (records.empty()) return Status::Ok();
  for (const StoreRecord& record : records) {
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(add_record_.get(), 1, static_cast<int64_t>(record.number))));
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(add_record_.get(), 2, record.time_ms)));
    RETURN_IF_ERROR(Bind(sqlite3_bind_blob64(add_record_.get(), 3, record.value.data(), record.value.size(), SQLITE_STATIC)));
    RETURN_IF_ERROR(Step(add_record_));
  }
  const StoreRecord& newest = records.back();
  const Result<std::vector<StoreRecord>> oldest = RecordsAfter(0, kRecordsGone + records.size());
  if (!oldest.ok()) return oldest.status();
  uint64_t last = 0;  // that goes
  for (const StoreRecord& record : oldest.value()) {
    if (record.number + bounds_.most > newest.number && record.time_ms >= newest.time_ms - bounds_.age_ms) break;
    last = record.number;
  }
  if (last == 0) return Status::Ok();
  RETURN_IF_ERROR(Bind(sqlite3_bind_int64(remove_records_.get(), 1, static_cast<int64_t>(last))));
  return Step(remove_records_);
}

Result<std::vector<StoreRecord>> SqliteStore::Records(const Statement& statement, uint64_t number, size_t most) const {
  RETURN_IF_ERROR(Bind(sqlite3_bind_int64(statement.get(), 1, static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX)))));
  RETURN_IF_ERROR(Bind(sqlite3_bind_int64(statement.get(), 2, static_cast<int64_t>(most))));
  std::vector<StoreRecord> found;
  int result = sqlite3_step(statement.get());
  for (; result == SQLITE_ROW; result = sqlite3_step(statement.get())) {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement.get(), 2));
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement.get(), 2));
    found.push_back({static_cast<uint64_t>(sqlite3_column_int64(statement.get(), 0)), sqlite3_column_int64(statement.get(), 1),
                     data == nullptr ? std::string() : std::string(data, size)});
  }
  sqlite3_reset(statement.get());
  if (result != SQLITE_DONE) return ErrorOf(database_.get(), path_, result);
  return found;
}

std::vector<StoreResult> SqliteStore::Commit(std::span<const StoreTransaction> transactions) {
  StoreImage::Plan plan = image_.PlanOf(transactions);
  std::vector<StoreResult> results = plan.results;
  if (plan.revision == image_.revision()) return results;
  if (const Status status = Write(plan); !status.ok()) {
    if (sqlite3_get_autocommit(database_.get()) == 0) sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    for (StoreResult& result : results) {
      if (result.outcome == StoreResult::Outcome::kDone) {
        result = {.outcome = StoreResult::Outcome::kFailed, .reason = status.message()};
      }
    }
    return results;
  }
  image_.Apply(std::move(plan));
  return results;
}

}  // namespace

Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path) {
  // SQLite would make it for whom the umask lets, and its log likewise. It is closed before SQLite has locks on it, which would
  // end with it.
  if (!UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)).valid()) {
    return Status::FromErrno(fmt::format("{}: the store cannot be opened", path), errno);
  }
  sqlite3* opened = nullptr;
  const int result = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(opened);
  if (result != SQLITE_OK) return ErrorOf(opened, path, result);
  auto store = std::make_unique<SqliteStore>(path, std::move(database));
  if (Status status = store->Open(); !status.ok()) return status;
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace tessera
