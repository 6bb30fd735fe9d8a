#include "netaware/store/sqlite_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "netaware/store/kept_records.h"
#include "netaware/store/last_commit.h"
#include "netaware/store/store_image.h"
#include "protocol/base/checksum.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

constexpr int kApplication = 0x74737250;  // "tsrP", SQLite's mark of the file's program
constexpr int kSchema = 3;
constexpr const char* kMakeRecords =
    "CREATE TABLE records (number INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, value BLOB NOT NULL);";
// The new columns of form 3. The checksums of older rows are computed from the rows as they are.
constexpr const char* kAddSums =
    "ALTER TABLE entries ADD COLUMN sum INTEGER NOT NULL DEFAULT 0; UPDATE entries SET sum = sum_of(key, value, revision);"
    "ALTER TABLE records ADD COLUMN owner BLOB NOT NULL DEFAULT x''; ALTER TABLE records ADD COLUMN sum INTEGER NOT NULL DEFAULT "
    "0;"
    "UPDATE records SET sum = sum_of(number, time_ms, value, owner);";

// The checksum of a row, without itself.
class RowSum {
 public:
  RowSum& Add(uint64_t number) {
    sum_ = ChecksumOf(std::as_bytes(std::span(&number, 1)), sum_);
    return *this;
  }
  RowSum& Add(std::string_view bytes) {
    Add(bytes.size());
    sum_ = ChecksumOf(std::as_bytes(std::span(bytes)), sum_);
    return *this;
  }
  uint64_t value() const { return sum_; }

 private:
  uint64_t sum_ = kNoBytesChecksum;
};

uint64_t SumOf(const StoreEntry& entry) { return RowSum().Add(entry.key).Add(entry.value).Add(entry.revision).value(); }

uint64_t SumOf(const StoreRecord& record) {
  return RowSum().Add(record.number).Add(static_cast<uint64_t>(record.time_ms)).Add(record.value).Add(record.owner).value();
}

// The SQL function sum_of(a, b, ...), over numbers and bytes.
void SumOfValues(sqlite3_context* context, int count, sqlite3_value** values) {
  RowSum sum;
  for (sqlite3_value* value : std::span(values, static_cast<size_t>(count))) {
    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
      sum.Add(static_cast<uint64_t>(sqlite3_value_int64(value)));
      continue;
    }
    const auto* const bytes = static_cast<const char*>(sqlite3_value_blob(value));
    sum.Add(std::string_view(bytes == nullptr ? "" : bytes, static_cast<size_t>(sqlite3_value_bytes(value))));
  }
  sqlite3_result_int64(context, static_cast<int64_t>(sum.value()));
}

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct EndStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
// The bytes of a column in the current row of `statement`.
std::string BytesOf(sqlite3_stmt* statement, int column) {
  const auto* const data = static_cast<const char*>(sqlite3_column_blob(statement, column));
  return data == nullptr ? std::string() : std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement, column)));
}
uint64_t NumberOf(sqlite3_stmt* statement, int column) { return static_cast<uint64_t>(sqlite3_column_int64(statement, column)); }
// From a row with number, time, value and owner.
StoreRecord RecordOf(sqlite3_stmt* statement) {
  return {NumberOf(statement, 0), sqlite3_column_int64(statement, 1), BytesOf(statement, 2), BytesOf(statement, 3)};
}

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
  void SetRecordBounds(const RecordBounds& bounds) override { kept_.SetBounds(bounds); }
  uint64_t revision() const override { return image_.revision(); }
  uint64_t epoch() const override { return epoch_; }

 private:
  Status Run(const char* sql);
  Status Number(const char* sql, int64_t* number);
  Result<Statement> Prepare(const char* sql);
  // Runs a statement that returns no rows, and resets it.
  Status Step(const Statement& statement);
  // Runs a statement that removes rows, and subtracts their checksums from `total`.
  Status Remove(const Statement& statement, uint64_t* total);
  // `are_summed`: true if the file had form 3 already, so that checksums and total were written with the rows.
  Status MakeTables(bool* are_summed);
  Status Read(bool are_summed);
  Status ReadEntries(std::vector<StoreEntry>* entries);
  Status ReadRecords();
  Status CheckLastCommit() const;
  Status WriteNumbers(uint64_t revision, uint64_t total);
  Status Write(const StoreImage::Plan& plan, const std::vector<KeptRecords::Gone>& gone);
  Status WriteRecords(const std::vector<StoreRecord>& records, const std::vector<KeptRecords::Gone>& gone, uint64_t* total);
  Result<std::vector<StoreRecord>> Records(const Statement& statement, uint64_t number, size_t most) const;
  Status Bind(int result) const { return result == SQLITE_OK ? Status::Ok() : ErrorOf(database_.get(), path_, result); }

  Status Damaged(std::string_view what) const {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: this store is damaged: {}: bring a copy back", path_, what));
  }
  std::string LastPath() const { return path_ + "-last"; }

  const std::string path_;
  const Database database_;
  Statement put_, remove_, set_numbers_, add_record_, after_, before_, remove_record_;
  StoreImage image_;
  KeptRecords kept_;
  std::optional<LastCommit> last_;
  uint64_t epoch_ = 0;
  uint64_t total_ = 0;  // of all rows' checksums; it reveals missing rows
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

Status SqliteStore::Remove(const Statement& statement, uint64_t* total) {
  int result = sqlite3_step(statement.get());
  for (; result == SQLITE_ROW; result = sqlite3_step(statement.get())) *total -= NumberOf(statement.get(), 0);
  sqlite3_reset(statement.get());
  return result == SQLITE_DONE ? Status::Ok() : ErrorOf(database_.get(), path_, result);
}

Status SqliteStore::MakeTables(bool* are_summed) {
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
  *are_summed = schema == kSchema;
  if (*are_summed) return Status::Ok();
  if (tables != 0)
    return Run(fmt::format("PRAGMA user_version = {}; {} {}", kSchema, schema < 2 ? kMakeRecords : "", kAddSums).c_str());
  return Run(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};"
                  "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) WITHOUT ROWID;"
                  "CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
                  "INSERT INTO numbers VALUES ('epoch', 0), ('revision', 0); {} {}",
                  kApplication, kSchema, kMakeRecords, kAddSums)
          .c_str());
}

Status SqliteStore::ReadEntries(std::vector<StoreEntry>* entries) {
  Result<Statement> rows = Prepare("SELECT key, value, revision, sum FROM entries");
  if (!rows.ok()) return rows.status();
  int result = sqlite3_step(rows->get());
  for (; result == SQLITE_ROW; result = sqlite3_step(rows->get())) {
    entries->push_back({BytesOf(rows->get(), 0), BytesOf(rows->get(), 1), NumberOf(rows->get(), 2)});
    const uint64_t sum = SumOf(entries->back());
    if (sum != NumberOf(rows->get(), 3))
      return Damaged(fmt::format("'{}' is not what was written", Printable(entries->back().key)));
    total_ += sum;
  }
  return result == SQLITE_DONE ? Status::Ok() : ErrorOf(database_.get(), path_, result);
}

Status SqliteStore::ReadRecords() {
  Result<Statement> rows = Prepare("SELECT number, time_ms, value, owner, sum FROM records ORDER BY number");
  if (!rows.ok()) return rows.status();
  int result = sqlite3_step(rows->get());
  for (; result == SQLITE_ROW; result = sqlite3_step(rows->get())) {
    const StoreRecord record = RecordOf(rows->get());
    const uint64_t sum = SumOf(record);
    if (sum != NumberOf(rows->get(), 4)) return Damaged(fmt::format("record {} is not what was written", record.number));
    total_ += sum;
    kept_.Load(record);
  }
  return result == SQLITE_DONE ? Status::Ok() : ErrorOf(database_.get(), path_, result);
}

Status SqliteStore::Read(bool are_summed) {
  int64_t epoch = 0, revision = 0, last_record = 0;
  RETURN_IF_ERROR(Number("SELECT value FROM numbers WHERE name = 'epoch'", &epoch));
  RETURN_IF_ERROR(Number("SELECT value FROM numbers WHERE name = 'revision'", &revision));
  RETURN_IF_ERROR(Number("SELECT coalesce(max(number), 0) FROM records", &last_record));
  epoch_ = static_cast<uint64_t>(epoch);
  std::vector<StoreEntry> entries;
  RETURN_IF_ERROR(ReadEntries(&entries));
  RETURN_IF_ERROR(ReadRecords());
  if (are_summed) {
    int64_t total = 0, sum = 0;
    RETURN_IF_ERROR(Number("SELECT value FROM numbers WHERE name = 'total'", &total));
    RETURN_IF_ERROR(Number("SELECT value FROM numbers WHERE name = 'sum'", &sum));
    const auto revision_there = static_cast<uint64_t>(revision), total_there = static_cast<uint64_t>(total);
    if (total_there != total_ || static_cast<uint64_t>(sum) != RowSum().Add(epoch_).Add(revision_there).Add(total_there).value())
      return Damaged("rows are missing, or numbers are not what was written");
  }
  image_.Load(std::move(entries), static_cast<uint64_t>(revision), static_cast<uint64_t>(last_record));
  return Status::Ok();
}

Status SqliteStore::CheckLastCommit() const {
  const std::optional<LastCommit::Commit> last = last_->Read();
  // A commit of another epoch belongs to a copy that was brought back, or was not written completely.
  if (!last || last->epoch != epoch_ || last->revision <= image_.revision()) return Status::Ok();
  return Status(
      StatusCode::kInvalidArgument,
      fmt::format("{}: this store is damaged: the last {} of its {} transactions are lost: bring a copy back, or remove "
                  "{} to go on without them",
                  path_, last->revision - image_.revision(), last->revision, LastPath()));
}

Status SqliteStore::WriteNumbers(uint64_t revision, uint64_t total) {
  const uint64_t numbers[] = {epoch_, revision, total, RowSum().Add(epoch_).Add(revision).Add(total).value()};
  for (int place = 1; const uint64_t number : numbers)
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(set_numbers_.get(), place++, static_cast<int64_t>(number))));
  return Step(set_numbers_);
}

Status SqliteStore::Open() {
  sqlite3_extended_result_codes(database_.get(), 1);
  RETURN_IF_ERROR(Bind(sqlite3_create_function_v2(database_.get(), "sum_of", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                                                  SumOfValues, nullptr, nullptr, nullptr)));
  // The first transaction takes the lock and keeps it: no other process can use the file meanwhile.
  RETURN_IF_ERROR(Run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; BEGIN IMMEDIATE"));
  bool are_summed = false;
  RETURN_IF_ERROR(MakeTables(&are_summed));
  int64_t sound = 0;
  RETURN_IF_ERROR(Number("SELECT count(*) FROM pragma_quick_check WHERE quick_check = 'ok'", &sound));
  if (sound != 1) return ErrorOf(database_.get(), path_, SQLITE_CORRUPT);
  RETURN_IF_ERROR(Read(are_summed));
  Result<LastCommit> last = LastCommit::Open(LastPath());
  if (!last.ok()) return last.status();
  last_.emplace(std::move(*last));
  RETURN_IF_ERROR(CheckLastCommit());
  for (const auto& [statement, sql] :
       {std::pair{&put_, "INSERT INTO entries VALUES (?, ?, ?, ?)"},
        std::pair{&remove_, "DELETE FROM entries WHERE key = ? RETURNING sum"},
        std::pair{&add_record_, "INSERT INTO records (number, time_ms, value, owner, sum) VALUES (?, ?, ?, ?, ?)"},
        std::pair{&after_, "SELECT number, time_ms, value, owner, sum FROM records WHERE number > ? ORDER BY number LIMIT ?"},
        std::pair{&before_,
                  "SELECT number, time_ms, value, owner, sum FROM records WHERE number < ? ORDER BY number DESC LIMIT ?"},
        std::pair{&remove_record_, "DELETE FROM records WHERE number = ? RETURNING sum"},
        std::pair{&set_numbers_,
                  "INSERT OR REPLACE INTO numbers VALUES ('epoch', ?1), ('revision', ?2), ('total', ?3), ('sum', ?4)"}}) {
    Result<Statement> prepared = Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = std::move(prepared).value();
  }
  ++epoch_;
  RETURN_IF_ERROR(WriteNumbers(image_.revision(), total_));
  RETURN_IF_ERROR(Run("COMMIT"));
  // Moves this start's epoch from the log into the file. Damage to the log cannot remove it there, and CheckLastCommit() needs
  // it.
  if (const Status moved = Run("PRAGMA wal_checkpoint(TRUNCATE)"); !moved.ok()) LogDebug("{}", moved.message());
  last_->Write({epoch_, image_.revision()});
  return Status::Ok();
}

Status SqliteStore::Write(const StoreImage::Plan& plan, const std::vector<KeptRecords::Gone>& gone) {
  RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  uint64_t total = total_;
  const auto bind = [&](const Statement& statement, int place, const std::string& bytes) {
    return Bind(sqlite3_bind_blob64(statement.get(), place, bytes.data(), bytes.size(), SQLITE_STATIC));
  };
  for (const auto& [revision, change] : plan.events) {
    RETURN_IF_ERROR(bind(remove_, 1, change.key));
    RETURN_IF_ERROR(Remove(remove_, &total));
    if (!change.value) continue;
    const uint64_t sum = SumOf(StoreEntry{change.key, *change.value, revision});
    RETURN_IF_ERROR(bind(put_, 1, change.key));
    RETURN_IF_ERROR(bind(put_, 2, *change.value));
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(put_.get(), 3, static_cast<int64_t>(revision))));
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(put_.get(), 4, static_cast<int64_t>(sum))));
    RETURN_IF_ERROR(Step(put_));
    total += sum;
  }
  RETURN_IF_ERROR(WriteRecords(plan.records, gone, &total));
  RETURN_IF_ERROR(WriteNumbers(plan.revision, total));
  RETURN_IF_ERROR(Run("COMMIT"));
  total_ = total;
  last_->Write({epoch_, plan.revision});
  return Status::Ok();
}

Status SqliteStore::WriteRecords(const std::vector<StoreRecord>& records, const std::vector<KeptRecords::Gone>& gone,
                                 uint64_t* total) {
  for (const StoreRecord& record : records) {
    const uint64_t sum = SumOf(record);
    const auto bind = [&](int place, const std::string& bytes) {
      return Bind(sqlite3_bind_blob64(add_record_.get(), place, bytes.data(), bytes.size(), SQLITE_STATIC));
    };
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(add_record_.get(), 1, static_cast<int64_t>(record.number))));
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(add_record_.get(), 2, record.time_ms)));
    RETURN_IF_ERROR(bind(3, record.value));
    RETURN_IF_ERROR(bind(4, record.owner));
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(add_record_.get(), 5, static_cast<int64_t>(sum))));
    RETURN_IF_ERROR(Step(add_record_));
    *total += sum;
  }
  for (const KeptRecords::Gone& each : gone) {
    RETURN_IF_ERROR(Bind(sqlite3_bind_int64(remove_record_.get(), 1, static_cast<int64_t>(each.number))));
    RETURN_IF_ERROR(Remove(remove_record_, total));
  }
  return Status::Ok();
}

Result<std::vector<StoreRecord>> SqliteStore::Records(const Statement& statement, uint64_t number, size_t most) const {
  RETURN_IF_ERROR(Bind(sqlite3_bind_int64(statement.get(), 1, static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX)))));
  RETURN_IF_ERROR(Bind(sqlite3_bind_int64(statement.get(), 2, static_cast<int64_t>(most))));
  std::vector<StoreRecord> found;
  int result = sqlite3_step(statement.get());
  uint64_t damaged = 0;  // the number of the first damaged record
  for (; result == SQLITE_ROW && damaged == 0; result = sqlite3_step(statement.get())) {
    found.push_back(RecordOf(statement.get()));
    if (SumOf(found.back()) != NumberOf(statement.get(), 4)) damaged = found.back().number;
  }
  sqlite3_reset(statement.get());
  if (damaged != 0) return Damaged(fmt::format("record {} is not what was written", damaged));
  if (result != SQLITE_DONE) return ErrorOf(database_.get(), path_, result);
  return found;
}

std::vector<StoreResult> SqliteStore::Commit(std::span<const StoreTransaction> transactions) {
  StoreImage::Plan plan = image_.PlanOf(transactions);
  std::vector<StoreResult> results = plan.results;
  if (plan.revision == image_.revision()) return results;
  const KeptRecords::Change change = kept_.Add(plan.records);
  if (const Status status = Write(plan, change.gone); !status.ok()) {
    kept_.Undo(change);
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
  // Makes the file first: SQLite would make it, and its log, with the mode that the umask allows. The descriptor is closed
  // before SQLite locks the file, since closing it later would end the locks.
  if (!UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)).valid()) {
    return Status::FromErrno(fmt::format("{}: the store cannot be opened", path), errno);
  }
  sqlite3* opened = nullptr;
  const int result = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(opened);
  if (result != SQLITE_OK) return ErrorOf(opened, path, result);
  auto store = std::make_unique<SqliteStore>(path, std::move(database));
  if (Status status = store->Open(); !status.ok()) {
    // A damaged log stays as it is: SQLite would copy its readable part into the file, and remove it.
    sqlite3_db_config(opened, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return status;
  }
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace tessera
