// Usage records in a database of SQLite: a row for each vGPU and second in which it had sessions.
//
//   Result<UsageStore> store = UsageStore::Open("/var/lib/tessera/x.usage");
//   RETURN_IF_ERROR(store->Write(batches));        // as a whole, or not at all
//   Result<std::vector<UsageAnswer::Row>> rows = store->Ask(query);
//
// One thread. Waits for the disk, and for others who have the database locked, for kLockedMs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "protocol/base/status.h"
#include "server/usage/usage_line.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tessera {

class UsageStore {
 public:
  static constexpr int kLockedMs = 2'000;
  static constexpr uint64_t kAskNs = 5'000'000'000;  // no question takes longer

  // Of the file: its number stands in it, and rises with each change of the tables. Older files are brought to it when they are
  // opened; a release that is older than a file refuses it.
  static constexpr int64_t kFormat = 2;

  // The database in this directory, which is there; made where there is none. Sentences name the file. kInvalidArgument: it is
  // damaged, no such database, or of a newer release; kResourceExhausted: the disk is full; kPermissionDenied, kUnavailable: it
  // cannot be had.
  static Result<UsageStore> Open(const std::string& directory);

  // Adds to what there is of the same second. Errors as of Open(): nothing of `batches` is written then.
  Status Write(std::span<const UsageBatch> batches);
  // Forgets what is older.
  Status DropBefore(int64_t second);
  // By name, GPU and begin. kResourceExhausted: they are more than kUsageRowsMax, or it takes too long.
  Result<std::vector<UsageAnswer::Row>> Ask(const UsageQuery& query);

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  class Statement;
  using Key = std::tuple<std::string, std::string, std::string>;  // name, GPU, owners

  UsageStore(std::unique_ptr<sqlite3, Close> database, std::string path)
      : database_(std::move(database)), path_(std::move(path)) {}
  Status Prepare();
  // From this format to kFormat, as a whole or not at all; 0: there are no tables yet.
  Status Raise(int64_t format);
  Status Run(const std::string& sql);
  Status WriteAll(std::span<const UsageBatch> batches);
  Result<int64_t> IdOf(const UsageBatch::Record& record);
  // What the last call's result means.
  Status Problem(int result) const;

  std::unique_ptr<sqlite3, Close> database_;
  std::string path_;
  std::map<Key, int64_t> ids_;  // of vGPUs that were written
};

// Whether this holder sees records with these owners.
bool MaySeeUsage(std::string_view owners, const UsageQuery& query);

}  // namespace tessera
