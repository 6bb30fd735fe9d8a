// User ids that workers have for themselves, one each: what a worker leaves in the file system or does to processes is refused
// by what keeps users apart. Two workers that live at once never have the same, those of other servers on this machine included:
// a lock of a file in /run/tessera tells them apart. Used by the daemon's thread alone; root's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Ids from `first` to `last`, with both; empty when first is 0.
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
  // Of the range; `directory` is for locks alone, made if it is missing.
  explicit WorkerUids(UidRange range, std::string directory = "/run/tessera/worker-uids");

  struct Lease {
    uid_t uid = 0;
    UniqueFd lock;  // held until no process has the id any more
  };
  // The ids in turn: one that was given back comes again as late as can be. kResourceExhausted when all are taken.
  Result<Lease> Take();

 private:
  const UidRange range_;
  const std::string directory_;
  uint64_t next_ = 0;  // offset in the range
};

}  // namespace tessera
