// What is queued in the driver, as far as it can be believed: how long it will take, by what such work took before.
//
// Nothing is recorded in the program's streams for it. When the driver has done everything in a stream, the time since the first
// work went in there is divided among all of it, in the proportion of what was believed; work of an unknown kind goes in alone in
// its stream, so that its time is its own. A stream that never comes to its end (a kernel that stays) keeps no other one from it.
// Beliefs may be wrong: what is billed is measured (gate_report.h). Pure; one thread. Times as in server/gate/gate_page.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/duration_estimate.h"

namespace tessera {

class QueueEstimate {
 public:
  // What was let into a stream that long ago, and after which nothing was, holds nobody back any longer there: it may wait for
  // what comes behind it (a value, an event).
  static constexpr int64_t kPatienceNs = 20'000'000;
  // A stream whose work should have been done so long ago stands: it waits for what comes behind it, and what goes in there does
  // not run now. For kStandsTurnNs, in which the rest of a token may be short, as much as kStandsBudgetNs may be queued then.
  static constexpr int64_t kStandsNs = 50'000'000;
  static constexpr int64_t kStandsTurnNs = 2'000'000;
  static constexpr int64_t kStandsBudgetNs = 50'000'000;
  // Kinds of work in one stream, and streams, whose times are told apart; more are not learned from.
  static constexpr size_t kKindsMax = 64;
  static constexpr size_t kStreamsMax = 64;
  // Of a piece of work that took longer once, the broker is told no more until it has taken that long twice: it may have waited.
  static constexpr int64_t kUnsureMaxNs = 1'000'000'000;

  // Whether work of this kind may go into `stream` (any number for one) while it is to begin within `budget_ns`. The last one may
  // end later: where it has to wait for the end of what is queued, it begins no later, and the GPU has a pause before it.
  bool MayAdd(uint64_t stream, uint64_t kind, int64_t budget_ns, int64_t now_ns);
  void Add(uint64_t stream, uint64_t kind, int64_t now_ns);
  // Everything that went into this stream had been done by then.
  void Drained(uint64_t stream, int64_t now_ns);
  // This stream waits for the client since `began_ns`, as a function that was enqueued at `enqueued_ns` says: all that went in
  // before it had been done by then. Nothing is learned from what went in since, as the wait is a part of its time.
  void WaitsForClient(uint64_t stream, int64_t enqueued_ns, int64_t began_ns);
  // Nothing of what is queued counts any more, and nothing is learned from it.
  void Reset();

  // What is believed to be left; 0 also when it takes longer than was believed.
  int64_t QueuedNs(int64_t now_ns) const { return queued_until_ns_ > now_ns ? queued_until_ns_ - now_ns : 0; }
  // The same as the broker is told.
  int64_t ToldNs(int64_t now_ns) const { return told_until_ns_ > now_ns ? told_until_ns_ - now_ns : 0; }

 private:
  struct Work {
    uint64_t kind;
    int64_t count;
    int64_t believed_ns;  // each; -1: unknown
  };
  // What went into a stream since the driver was last seen to have done everything in it.
  struct Batch {
    uint64_t stream;
    int64_t began_ns;
    int64_t added_ns;
    std::vector<Work> work;
    int64_t due_ns = 0;            // all of it is believed to be done by then
    int64_t stands_until_ns = 0;   // it is believed to stand
    bool teaches_nothing = false;  // too many kinds, or it waited for the client
    bool has_unknown = false;
  };
  Batch* Find(uint64_t stream);
  void Learn(const Batch& batch, int64_t took_ns);
  DurationEstimate& durations();

  std::unique_ptr<DurationEstimate> durations_;  // made when it is needed: a hundred KiB
  std::vector<Batch> batches_;
  int64_t queued_until_ns_ = 0;
  int64_t told_until_ns_ = 0;
};

}  // namespace tessera
