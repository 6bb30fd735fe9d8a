// Refusals that are told again and again. Of equal ones within a minute the first is a record, and the others are one more, with
// their count, when the minute is over: whoever asks a thousand times a second does not fill the store with that.
//
//   if (refusals.IsNew(record)) note(record);
//   for (const AuditRecord& record : refusals.Ended(now_ms)) note(record);      // "... (83,999 times more in 60 s)"
//
// Equal: of one who was refused the same, for the same reason. Grants that were asked for differ by their ids alone, so these do
// not count. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "netaware/service/audit_record.h"

namespace tessera {

class EqualRefusals {
 public:
  static constexpr int64_t kMinuteMs = 60'000;
  static constexpr size_t kDifferentMax = 4'096;  // that are counted; one more ends the count of the first

  // False: it is counted, and is no record.
  bool IsNew(const AuditRecord& record);
  // A record for each of whose minute is over, if it came again. `now_ms` INT64_MAX: of all.
  std::vector<AuditRecord> Ended(int64_t now_ms);

 private:
  struct Counted {
    AuditRecord first{};
    int64_t last_ms = 0;
    uint64_t more = 0;
  };

  void EndFirst();

  std::map<std::string, Counted> counted_;
  std::deque<std::string> order_;  // in which they came first
  std::vector<AuditRecord> ended_;
};

}  // namespace tessera
