// What is queued in the driver, as far as it can be believed: how long it will take, by what such work took before.
//
// Nothing is recorded in the program's streams for it. When the driver has done everything, the time since the first work went in
// is divided among all of it, in the proportion of what was believed; work of an unknown kind goes in alone, so that its time is
// its own. Beliefs may be wrong: what is billed is measured (gate_report.h). Pure; one thread. Times as in
// server/gate/gate_page.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/duration_estimate.h"

namespace tessera {

class QueueEstimate {
 public:
  // What was let in that long ago, and after which nothing was, holds nobody back any longer: work may wait for what comes behind
  // it (a stream that waits for a value).
  static constexpr int64_t kPatienceNs = 20'000'000;
  // Kinds of work whose times are told apart between two moments at which all is done; more are not learned from.
  static constexpr size_t kKindsMax = 64;

  // Whether work of this kind may go in while no more than `budget_ns` is to be queued.
  bool MayAdd(uint64_t kind, int64_t budget_ns, int64_t now_ns);
  void Add(uint64_t kind, int64_t now_ns);
  // Everything that went in had been done by then.
  void Drained(int64_t now_ns);
  // Nothing of it counts any more, and nothing is learned from it.
  void Reset();

  // What is believed to be left; 0 also when it takes longer than was believed.
  int64_t QueuedNs(int64_t now_ns) const { return queued_until_ns_ > now_ns ? queued_until_ns_ - now_ns : 0; }
  bool empty() const { return work_.empty(); }

 private:
  struct Work {
    uint64_t kind;
    int64_t count;
    int64_t believed_ns;  // each; -1: unknown
  };
  void Learn(int64_t took_ns);
  DurationEstimate& durations();

  std::unique_ptr<DurationEstimate> durations_;  // made when it is needed: a hundred KiB
  std::vector<Work> work_;                       // since the driver was last seen to have done everything
  bool too_many_kinds_ = false;
  bool has_unknown_ = false;
  int64_t began_ns_ = 0;
  int64_t added_ns_ = 0;
  int64_t queued_until_ns_ = 0;
};

}  // namespace tessera
