// Records that wait to be stored. There is an end to them: beyond it somebody of whom most wait loses his own, never another's.
//
//   if (!notes.Add(StoredAudit(record))) LogError(...);
//   transaction.records = notes.Take();
//
// Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "netaware/store/store.h"

namespace tessera {

class WaitingNotes {
 public:
  static constexpr size_t kMost = 10'000;

  // False: it is lost, since nobody has more that wait than its owner. Else, at the bound, the newest of whoever has most is.
  bool Add(StoreRecord record);
  // So many of each owner, in the order in which they came; the others wait on.
  std::vector<StoreRecord> Take(size_t of_owner = SIZE_MAX);
  bool empty() const { return notes_.empty(); }

 private:
  std::vector<StoreRecord> notes_;
  std::map<std::string, size_t> of_;  // by owner
};

}  // namespace tessera
