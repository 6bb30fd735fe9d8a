// Estimates how long the driver's queue will take, by what such work took before.
//
// Nothing is recorded in the program's streams. When a stream is empty, the time since its first work went in is divided among
// all its work, in proportion to the estimates. Work of an unknown kind goes into its stream alone, so that its time is its own,
// and one piece at a time is in all streams together: nobody knows how long it takes. A stream that never becomes empty (a kernel
// that stays) holds others up for its patience alone. Estimates may be wrong, but bills are measured (gate_report.h). Pure; one
// thread. Times as in server/gate/gate_page.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scheduler/duration_estimate.h"

namespace tessera {

class QueueEstimate {
 public:
  // If the last work went into a stream that long ago, it holds nothing back in that stream any longer: it may wait for what
  // comes behind it (a value, an event).
  static constexpr int64_t kPatienceNs = 20'000'000;
  // An unknown piece that has not ended holds further ones up for kPatienceNs. That time doubles with each stream that has one,
  // so many times: they may wait for one another. Within a stream it doubles with each piece, so many times: others may wait for
  // it.
  static constexpr size_t kUnknownDoublingsMax = 8;
  static constexpr size_t kPieceDoublingsMax = 4;
  // A stream whose work should have been done so long ago stands: it waits for what comes behind it, and new work there does not
  // run now. Then up to kStandsBudgetNs may be queued for kStandsTurnNs, even if the rest of the token is shorter.
  static constexpr int64_t kStandsNs = 50'000'000;
  static constexpr int64_t kStandsTurnNs = 2'000'000;
  static constexpr int64_t kStandsBudgetNs = 50'000'000;
  // Kinds of work in one stream whose times are told apart. Nothing is learned from more.
  static constexpr size_t kKindsMax = 64;
  // Streams that have work. Into others one piece goes in each kPatienceNs, and nothing is learned from it.
  static constexpr size_t kStreamsMax = 1024;
  // The most that the broker is told of work that took longer once: it may have waited. After it took that long twice its whole
  // time is told.
  static constexpr int64_t kUnsureMaxNs = 1'000'000'000;

  // Whether work of this kind may go into `stream` (any number that names it) so that it begins within `budget_ns`. It may end
  // later: if it had to wait until the queue is empty it would begin no earlier, and the GPU would pause before it.
  bool MayAdd(uint64_t stream, uint64_t kind, int64_t budget_ns, int64_t now_ns);
  void Add(uint64_t stream, uint64_t kind, int64_t now_ns);
  // All work of this stream was done by `now_ns`.
  void Drained(uint64_t stream, int64_t now_ns);
  // The stream waits for the client since `began_ns`, in a function that was enqueued at `enqueued_ns`. So all work from before
  // that function was done by `began_ns`. Nothing is learned from later work, since the wait is part of its time.
  void WaitsForClient(uint64_t stream, int64_t enqueued_ns, int64_t began_ns);
  // Forgets the queue, and learns nothing from it.
  void Reset();

  // The estimated rest of the queue; 0 also when the work takes longer than estimated.
  int64_t QueuedNs(int64_t now_ns) const { return queued_until_ns_ > now_ns ? queued_until_ns_ - now_ns : 0; }
  // The same, as the broker is told.
  int64_t ToldNs(int64_t now_ns) const { return told_until_ns_ > now_ns ? told_until_ns_ - now_ns : 0; }
  // How long unknown work took that has ended since the last call, beyond what was told; kUnsureMaxNs of each stream at most.
  int64_t TakeUntoldNs() { return std::exchange(untold_ns_, 0); }

 private:
  struct Work {
    uint64_t kind;
    int64_t count;
    int64_t believed_ns;  // each; -1: unknown
  };
  // What went into a stream since it was last seen empty.
  struct Batch {
    int64_t began_ns;
    int64_t added_ns;
    std::vector<Work> work;
    int64_t due_ns = 0;            // by then all of it should be done
    int64_t stands_until_ns = 0;   // until then the stream counts as standing
    bool teaches_nothing = false;  // too many kinds, or it waited for the client
    size_t unknown = 0;            // pieces of unknown kinds

    int64_t PatienceNs() const { return kPatienceNs << (unknown > 1 ? std::min(unknown - 1, kPieceDoublingsMax) : 0); }
  };
  Batch* Find(uint64_t stream);
  bool HoldsUnknown(int64_t now_ns) const;
  void Learn(const Batch& batch, int64_t took_ns);
  DurationEstimate& durations();

  std::unique_ptr<DurationEstimate> durations_;  // made on first use: a hundred KiB
  std::unordered_map<uint64_t, Batch> batches_;  // by stream
  size_t unknown_ = 0;                           // of them have unknown work
  int64_t uncounted_added_ns_ = 0;               // when the last piece went into a stream without a batch
  int64_t untold_ns_ = 0;
  int64_t queued_until_ns_ = 0;
  int64_t told_until_ns_ = 0;
};

}  // namespace tessera
