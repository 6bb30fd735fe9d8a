// Gives each worker a user id of its own, so that the kernel keeps workers apart in the file system and as processes. Two living
// workers never have the same id, not even of two servers on this machine: each id has a locked file in /run/tessera. The
// daemon's thread; only for root.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Ids from `first` to `last`, both included; empty when first is 0.
struct UidRange {
  uid_t first = 0;
  uid_t last = 0;
  bool empty() const { return first == 0; }
  uint64_t size() const { return empty() ? 0 : uint64_t{last} - first + 1; }
};

// "200000-264999". kInvalidArgument with a sentence: not that form, root's id, or one that the kernel has for nobody.
Result<UidRange> ParseUidRange(const std::string& text);

class WorkerUids {
 public:
  // `directory`: only for locks; made if it is missing.
  explicit WorkerUids(UidRange range, std::string directory = "/run/tessera/worker-uids");

  struct Lease {
    uid_t uid = 0;
    UniqueFd lock;  // held until no process has the id any more
  };
  // Takes an id. Ids come in turn, so one that was given back is reused as late as possible. kResourceExhausted: all are taken.
  Result<Lease> Take();

 private:
  const UidRange range_;
  const std::string directory_;
  uint64_t next_ = 0;  // offset in the range
};

}  // namespace tessera
