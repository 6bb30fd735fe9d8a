// The last commit that a store has answered, in a small file beside the store's. To SQLite, a log with a damaged end looks like
// a log that ends earlier (https://sqlite.org/fileformat2.html#walformat). Without this file, answered commits would be lost
// without an error.
//
//   Result<LastCommit> last = LastCommit::Open("/var/lib/tessera/placer.db-last");
//   if (last->Read() ...) ...                      // before this start
//   last->Write({.epoch = 3, .revision = 41});     // the store's last durable commit
//
// Write() does not wait for the disk: a killed process loses no write, and a power failure loses at most the newest ones. One
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class LastCommit {
 public:
  struct Commit {
    uint64_t epoch = 0;
    uint64_t revision = 0;
  };

  // Opens the file, or makes it for its owner alone (mode 0600). Errors: those of open(2); the sentence names the file.
  static Result<LastCommit> Open(const std::string& path);

  // nullopt: nothing was written, or not all of it.
  std::optional<Commit> Read() const;
  // Logs the first failure only. After a failure, the next start may not notice lost commits.
  void Write(const Commit& commit);

 private:
  LastCommit(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
  bool is_told_ = false;
};

}  // namespace tessera
