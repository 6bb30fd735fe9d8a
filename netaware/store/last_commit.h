// The last commit that a store has answered, in a small file beside its own: a log whose end is damaged looks to SQLite as one
// that ends earlier, and what was answered would be gone without a word (https://sqlite.org/fileformat2.html#walformat).
//
//   Result<LastCommit> last = LastCommit::Open("/var/lib/tessera/placer.db-last");
//   if (last->Read() ...) ...                      // before this start
//   last->Write({.epoch = 3, .revision = 41});     // what is durable in the store
//
// Writing it waits for no disk: a process that is killed loses nothing of it, a machine that loses its power the newest at most.
// One thread.
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

  // Makes it for its owner alone where there is none. Errors: of open(2); the sentence names the file.
  static Result<LastCommit> Open(const std::string& path);

  // nullopt: nothing was written, or not all of it.
  std::optional<Commit> Read() const;
  // A disk that refuses it is told in the log, once: then less is known at the next start.
  void Write(const Commit& commit);

 private:
  LastCommit(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
  bool is_told_ = false;
};

}  // namespace tessera
