#include "server/usage/usage_store.h"

#include <fmt/core.h>
#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"

namespace tessera {
namespace {

constexpr int kApplication = 0x54757367;  // as file(1) sees it

// As format 1 was made. A newer format is made of the one before it by one step more: of old files as of new ones.
constexpr const char* kTables =
    "CREATE TABLE vgpu(id INTEGER PRIMARY KEY, name TEXT NOT NULL, gpu TEXT NOT NULL, owners TEXT NOT NULL,"
    " UNIQUE(name, gpu, owners));"
    "CREATE TABLE usage(vgpu INTEGER NOT NULL, second INTEGER NOT NULL, busy_us INTEGER NOT NULL, wait_us INTEGER NOT NULL,"
    " active_us INTEGER NOT NULL, memory_peak_bytes INTEGER NOT NULL, launches INTEGER NOT NULL,"
    " PRIMARY KEY(vgpu, second)) WITHOUT ROWID;";

// Format 2: what memory_peak_bytes were taken for.
static_assert(kMemoryKinds == 8, "another kind is another column: raise UsageStore::kFormat and add a step");
constexpr int kFirstKind = 8;  // place of the first kind among the values of a row

std::string KindColumn(size_t kind) { return fmt::format("{}_bytes", kMemoryKindNames[kind]); }

std::string KindColumns() {
  std::string columns;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) columns += ", " + KindColumn(kind);
  return columns;
}

// From `format` to the next; format 0 has no tables.
std::string Step(int64_t format) {
  if (format == 0) return kTables;
  std::string sql;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    sql += fmt::format("ALTER TABLE usage ADD COLUMN {} INTEGER NOT NULL DEFAULT 0;", KindColumn(kind));
  return sql;
}

// Adds a row to what there is of its second. The kinds are those of the larger peak: all of it is read before it is changed.
std::string PutSql() {
  std::string places, kinds;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
    const std::string place = fmt::format("?{}", kFirstKind + static_cast<int>(kind));
    places += ", " + place;
    kinds += fmt::format(", {0} = CASE WHEN ?6 > memory_peak_bytes THEN {1} ELSE {0} END", KindColumn(kind), place);
  }
  return fmt::format(
      "INSERT INTO usage(vgpu, second, busy_us, wait_us, active_us, memory_peak_bytes, launches{}) VALUES(?1, ?2, ?3, ?4, ?5, ?6,"
      " ?7{}) ON CONFLICT(vgpu, second) DO UPDATE SET busy_us = busy_us + ?3, wait_us = wait_us + ?4,"
      " active_us = active_us + ?5, memory_peak_bytes = max(memory_peak_bytes, ?6), launches = launches + ?7{}",
      KindColumns(), places, kinds);
}

// The kinds are those of the row with the largest peak: so SQLite takes columns beside a single max().
std::string SumsSql() {
  return fmt::format(
      "SELECT CASE WHEN ?4 = 0 THEN ?2 ELSE second - second % ?4 END AS begin, count(*), sum(busy_us), sum(wait_us),"
      " sum(active_us), max(memory_peak_bytes), sum(launches){} FROM usage WHERE vgpu = ?1 AND second >= ?2"
      " AND second < ?3 GROUP BY begin",
      KindColumns());
}

int64_t Signed(uint64_t number) { return static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX / 1024)); }

}  // namespace

// A prepared statement, reset after each use.
class UsageStore::Statement {
 public:
  Statement(sqlite3* database, const std::string& sql) {
    result_ = sqlite3_prepare_v2(database, sql.c_str(), -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  int result() const { return result_; }
  void Bind(int place, int64_t number) { sqlite3_bind_int64(statement_, place, number); }
  void Bind(int place, const std::string& text) {
    sqlite3_bind_text(statement_, place, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  // SQLITE_ROW, SQLITE_DONE, or an error.
  int Step() { return result_ != SQLITE_OK ? result_ : sqlite3_step(statement_); }
  void Reset() { sqlite3_reset(statement_); }
  int64_t Number(int column) { return sqlite3_column_int64(statement_, column); }
  uint64_t Count(int column) { return static_cast<uint64_t>(std::max<int64_t>(Number(column), 0)); }
  std::string Text(int column) {
    const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr ? "" : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int result_;
};

void UsageStore::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Status UsageStore::Problem(int result) const {
  const char* const why = database_ == nullptr ? sqlite3_errstr(result) : sqlite3_errmsg(database_.get());
  const std::string what = fmt::format("{}: {}", path_, why);
  switch (result & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Status(StatusCode::kInvalidArgument, what + "; it is damaged: move it away, and a new one is made");
    case SQLITE_FULL: return Status(StatusCode::kResourceExhausted, what + "; make room there, or lower --usage-days");
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH: return Status(StatusCode::kPermissionDenied, what);
    case SQLITE_INTERRUPT:
      return Status(StatusCode::kResourceExhausted, "the question takes too long: ask for a shorter time, or one vGPU");
    default: return Status(StatusCode::kUnavailable, what);
  }
}

Result<UsageStore> UsageStore::Open(const std::string& directory) {
  const std::string path = directory + "/usage.sqlite";
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(path.c_str(), &opened, flags, nullptr);
  UsageStore store(std::unique_ptr<sqlite3, Close>(opened), path);
  if (result != SQLITE_OK) return store.Problem(result);
  RETURN_IF_ERROR(store.Prepare());
  return store;
}

Status UsageStore::Prepare() {
  sqlite3_busy_timeout(database_.get(), kLockedMs);
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // A journal that is emptied and not removed: half as much for the disk.
  RETURN_IF_ERROR(
      Run("PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY;"
          "PRAGMA cache_size=-1024;"));
  int64_t application = 0, format = 0;
  {
    Statement of_application(database_.get(), "PRAGMA application_id");
    if (const int result = of_application.Step(); result != SQLITE_ROW) return Problem(result);
    application = of_application.Number(0);
    Statement of_format(database_.get(), "PRAGMA user_version");
    if (const int result = of_format.Step(); result != SQLITE_ROW) return Problem(result);
    format = of_format.Number(0);
    Statement tables(database_.get(), "SELECT count(*) FROM sqlite_schema");
    if (const int result = tables.Step(); result != SQLITE_ROW) return Problem(result);
    if (application == 0 && format == 0 && tables.Number(0) == 0) application = -1;  // it is new
  }
  if (application == -1) return Raise(0);
  if (application != kApplication || format < 1 || format > kFormat) {
    return Status(StatusCode::kInvalidArgument,
                  path_ + " is no database of usage records, or of a newer release: move it away, and a new one is made");
  }
  if (format < kFormat) return Raise(format);
  // Of a damaged one its first question would tell.
  Statement newest(database_.get(), "SELECT max(second), (SELECT count(*) FROM vgpu) FROM usage WHERE vgpu = 1");
  const int result = newest.Step();
  return result == SQLITE_ROW ? Status::Ok() : Problem(result);
}

Status UsageStore::Raise(int64_t format) {
  std::string sql = "BEGIN IMMEDIATE;";
  for (; format < kFormat; ++format) sql += Step(format);
  return Run(sql + fmt::format("PRAGMA application_id={}; PRAGMA user_version={}; COMMIT;", kApplication, kFormat));
}

Status UsageStore::Run(const std::string& sql) {
  const int result = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? Status::Ok() : Problem(result);
}

Status UsageStore::Write(std::span<const UsageBatch> batches) {
  RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  Status status = WriteAll(batches);
  if (status.ok()) status = Run("COMMIT");
  if (!status.ok()) {
    ids_.clear();  // what was inserted is not there
    sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return status;
}

Status UsageStore::WriteAll(std::span<const UsageBatch> batches) {
  Statement put(database_.get(), PutSql());
  for (const UsageBatch& batch : batches) {
    for (const UsageBatch::Record& record : batch.records) {
      Result<int64_t> id = IdOf(record);
      if (!id.ok()) return id.status();
      put.Bind(1, *id);
      put.Bind(2, batch.second);
      put.Bind(3, Signed(record.sums.busy_us));
      put.Bind(4, Signed(record.sums.wait_us));
      put.Bind(5, Signed(record.sums.active_us));
      put.Bind(6, Signed(record.sums.memory_peak_bytes));
      put.Bind(7, Signed(record.sums.launches));
      int place = kFirstKind;
      for (const uint64_t bytes : record.sums.memory_peak_by_kind) put.Bind(place++, Signed(bytes));
      if (const int result = put.Step(); result != SQLITE_DONE) return Problem(result);
      put.Reset();
    }
  }
  return Status::Ok();
}

Result<int64_t> UsageStore::IdOf(const UsageBatch::Record& record) {
  const Key key(record.name, record.gpu, record.owners);
  if (const auto found = ids_.find(key); found != ids_.end()) return found->second;
  Statement insert(database_.get(), "INSERT OR IGNORE INTO vgpu(name, gpu, owners) VALUES(?1, ?2, ?3)");
  Statement find(database_.get(), "SELECT id FROM vgpu WHERE name = ?1 AND gpu = ?2 AND owners = ?3");
  for (Statement* const statement : {&insert, &find}) {
    statement->Bind(1, record.name);
    statement->Bind(2, record.gpu);
    statement->Bind(3, record.owners);
  }
  if (const int result = insert.Step(); result != SQLITE_DONE) return Problem(result);
  if (const int result = find.Step(); result != SQLITE_ROW) return Problem(result);
  return ids_[key] = find.Number(0);
}

Status UsageStore::DropBefore(int64_t second) {
  Statement drop(database_.get(), "DELETE FROM usage WHERE vgpu IN (SELECT id FROM vgpu) AND second < ?1");
  drop.Bind(1, second);
  if (const int result = drop.Step(); result != SQLITE_DONE) return Problem(result);
  ids_.clear();
  return Run("DELETE FROM vgpu WHERE NOT EXISTS (SELECT 1 FROM usage WHERE usage.vgpu = vgpu.id)");
}

bool MaySeeUsage(std::string_view owners, const UsageQuery& query) {
  if (query.sees_all || owners == "*") return true;
  while (!owners.empty()) {
    const size_t comma = owners.find(',');
    if (owners.substr(0, comma) == query.holder) return true;
    owners.remove_prefix(comma == std::string_view::npos ? owners.size() : comma + 1);
  }
  return false;
}

Result<std::vector<UsageAnswer::Row>> UsageStore::Ask(const UsageQuery& query) {
  uint64_t until_ns = MonotonicNs() + kAskNs;
  sqlite3_progress_handler(
      database_.get(), 10'000, [](void* until) { return MonotonicNs() > *static_cast<uint64_t*>(until) ? 1 : 0; }, &until_ns);
  const auto no_more = [](sqlite3* database) { sqlite3_progress_handler(database, 0, nullptr, nullptr); };
  const std::unique_ptr<sqlite3, decltype(no_more)> handled(database_.get(), no_more);

  std::map<std::tuple<std::string, std::string, int64_t>, UsageAnswer::Row> rows;
  Statement vgpus(database_.get(), "SELECT id, name, gpu, owners FROM vgpu WHERE ?1 = '' OR name = ?1");
  Statement sums(database_.get(), SumsSql());
  vgpus.Bind(1, query.name);
  int result = vgpus.Step();
  for (; result == SQLITE_ROW; result = vgpus.Step()) {
    if (!MaySeeUsage(vgpus.Text(3), query)) continue;
    sums.Reset();
    sums.Bind(1, vgpus.Number(0));
    sums.Bind(2, query.since);
    sums.Bind(3, query.until);
    sums.Bind(4, query.bucket_s);
    int of_sums = sums.Step();
    for (; of_sums == SQLITE_ROW; of_sums = sums.Step()) {
      UsageAnswer::Row& row = rows[{vgpus.Text(1), vgpus.Text(2), sums.Number(0)}];
      row.name = vgpus.Text(1);
      row.gpu = vgpus.Text(2);
      row.begin = sums.Number(0);
      row.seconds += sums.Count(1);
      UsageSums more{sums.Count(2), sums.Count(3), sums.Count(4), sums.Count(5), sums.Count(6)};
      int column = kFirstKind - 1;
      for (uint64_t& bytes : more.memory_peak_by_kind) bytes = sums.Count(column++);
      row.sums.Add(more);
      if (rows.size() > kUsageRowsMax) {
        return Status(StatusCode::kResourceExhausted,
                      fmt::format("more than {} sums: ask for a shorter time, longer steps, or one vGPU", kUsageRowsMax));
      }
    }
    if (of_sums != SQLITE_DONE) return Problem(of_sums);
  }
  if (result != SQLITE_DONE) return Problem(result);
  std::vector<UsageAnswer::Row> answer;
  for (auto& [key, row] : rows) answer.push_back(std::move(row));
  return answer;
}

}  // namespace tessera
