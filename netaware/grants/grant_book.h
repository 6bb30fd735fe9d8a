// All grants of a pool, from the first word of a job to its end.
//
//   GrantBook book(pool);
//   book.Ask({.id = id, .holder = "name:alice", .wish = {.share = 500'000}}, now_ms);
//   for (const GrantAction& action : book.Turn(now_ms)) ...         // hold it at gpu7
//   book.Held(id, "gpu7"); book.Turn(now_ms);                       // store it
//   book.Stored(id, now_ms); book.Turn(now_ms);                       // confirm it at gpu7, tell the job
//
// A job hears of no grant that a server could still refuse, or that a crash could lose: all servers hold their parts first, then
// the store has it, then the job is told. When one server refuses, or is silent for kAnswerMs, all parts are given back and
// another place is looked for. A job's wait ends in its time, a few seconds later at most, whoever does not answer. Jobs that
// wait are looked at in the order in which they came; one that fits does not wait for one that does not.
//
// What a job costs does not grow with the jobs of others that wait. Each holder's have a line of their own, for which no more
// than kLooksOfHolder GPUs are looked at in kSliceMs (those of one job at least): when something becomes free, the line is gone
// through once, in as many slices as that takes, and equal wishes are looked at once. Of those that do not fit, the bounds of the
// constructor have an end: his own oldest is revoked, or, of all, the oldest of the holder who has most.
//
// Pure: time is an argument, and actions are the caller's. Belongs to one thread, as does the pool, in which it holds what it
// has.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "netaware/grants/grant.h"
#include "netaware/inventory/inventory.h"
#include "protocol/base/status.h"
#include "protocol/rpc/holder_shares.h"

namespace tessera {

inline constexpr int64_t kNsOfMs = 1'000'000;

class GrantBook {
 public:
  static constexpr int64_t kAnswerMs = 1'000;   // for a server to hold a part
  static constexpr int64_t kAvoidedMs = 5'000;  // a server that refused or was silent gets nothing of this grant for so long
  static constexpr int64_t kStoreMs = 5'000;    // for the store, of a grant whose job does not wait any longer
  static constexpr int64_t kLateMs = 2'000;     // for other places, when a job that was to be placed by then was refused
  static constexpr int64_t kLookMs = 1'000;     // after which jobs that wait are looked at again, whatever happens
  static constexpr int64_t kLeaseMs = 60'000;   // a job of which nothing is heard has ended then
  static constexpr int64_t kSliceMs = 10;
  static constexpr uint64_t kLooksOfHolder = 16'384;  // about a millisecond
  static constexpr size_t kUntriedMax = 64;           // of a holder: TakesAsks()

  // `waiting`: how many may wait, of those that were tried and did not fit.
  explicit GrantBook(Inventory& pool, const HolderShares::Bounds& waiting = {.of_holder = SIZE_MAX, .in_all = SIZE_MAX})
      : pool_(pool), waiting_bounds_(waiting), shares_(waiting) {}

  // The same ask again changes nothing. kInvalidArgument: another one had that id; or what is asked cannot be, with the field.
  Status Ask(const GrantAsk& ask, int64_t now_ms);
  // False: so many jobs of this holder were not tried yet that he should ask for no more before the next turn.
  bool TakesAsks(std::string_view holder) const;
  // A grant that the store had when the placer began: its parts are held, and it is granted. kResourceExhausted, kNotFound: as
  // Inventory::Hold() says; the caller tells of it, and ends it.
  Status Restore(const Grant& grant, int64_t now_ms);

  // Answers to actions. Those that come late, or for no action, change nothing.
  void Held(const GrantId& grant, std::string_view server);
  void Refused(const GrantId& grant, std::string_view server, int64_t now_ms);
  void Stored(const GrantId& grant, int64_t now_ms);
  // The store failed: the parts are given back, the job is told, and is placed again from `again_ms` on, if it waits for so long.
  void NotStored(const GrantId& grant, int64_t again_ms);

  // The job lives, or waits: its lease says so every 10 s, and a server that has sessions of it.
  void Beat(const GrantId& grant, int64_t now_ms);
  // The job has ended, or withdraws. kNotFound: there is no such grant, or it has ended.
  Status Release(const GrantId& grant);
  Status Revoke(const GrantId& grant, std::string reason);

  // What is to be done now. Each action is told once. Call it again after each event, and at NextMs().
  std::vector<GrantAction> Turn(int64_t now_ms);
  // When something happens by itself, if nothing else does before; INT64_MAX: nothing.
  int64_t NextMs() const;

  // Null: there is none, or a Turn() before the last one told of its end.
  const Grant* Find(const GrantId& grant) const;
  size_t size() const { return entries_.size(); }
  // How many wait (kWaiting).
  size_t waiting() const { return waiting_; }
  // Those that have parts: kHolding, kHeld, kGranted.
  const std::set<GrantId>& placed() const { return placed_; }
  // How many GPUs were looked at for jobs so far.
  uint64_t looks() const { return looks_; }

 private:
  using State = Grant::State;
  struct Entry {
    Grant grant{};
    uint64_t number = 0;          // of the ask: who came first
    int64_t wait_until_ms = 0;    // kWaiting
    int64_t answer_until_ms = 0;  // kHolding
    int64_t not_before_ms = 0;    // kWaiting: it is placed again from then on; 0: whenever it fits
    bool was_held = false;        // it was to be placed before
    int64_t heard_ms = 0;
    int64_t due_ms = 0;                                     // as in due_; 0: it is not there
    bool is_to_try = false;                                 // in its line's to_try
    bool has_share = false;                                 // it waits, and was tried since
    ServerNames held{};                                     // servers that hold their parts
    std::map<std::string, int64_t, std::less<>> avoided{};  // servers, until when
  };

  // Jobs of one holder that wait, by number.
  struct Line {
    std::map<uint64_t, GrantId> jobs{};
    std::set<uint64_t> to_try{};  // whatever has become free: those that are new, and those whose time has come
    // What is known of wishes that did not fit, while nothing has become free. Of this pass.
    std::map<Wish, Placement> known{};
    uint64_t known_changes = 0;
    uint64_t next = 0;     // of the pass: the number from which on jobs are still to be looked at; kNoPass: there is none
    uint64_t changes = 0;  // of the pool, when the last pass began
    int64_t look_ms = 0;   // when the next one begins at the latest
    int64_t slice_ms = 0;  // when the present slice began
    uint64_t looks = 0;    // of it
  };
  static constexpr uint64_t kNoPass = UINT64_MAX;
  static constexpr size_t kKnownMax = 1'024;
  static constexpr uint64_t kLooksOfTell = 64;  // what it takes to tell a job why it waits now, in looks

  void Wait(Entry& entry);
  void WaitNoMore(Entry& entry);
  void TryNext(Entry& entry);
  // When it is to be looked at next, whatever happens.
  static int64_t DueMs(const Entry& entry);
  void Schedule(Entry& entry);
  void Tend(Entry& entry, int64_t now_ms);
  void TryAll(int64_t now_ms);
  // Counts one that did not fit among those that wait.
  void Share(const Entry& entry);
  // The number of the next job to look at; kNoPass: there is none, or not in this slice.
  uint64_t NextOf(Line& line, int64_t now_ms) const;
  const Placement& LookAt(Line& line, const Wish& wish, int64_t now_ms);
  Entry* FindIn(const GrantId& grant, State state);
  void Act(GrantAction::Kind kind, const Entry& entry, std::string server = "");
  void Become(Entry& entry, State state, std::string reason = "");
  // Its parts are nobody's any more.
  void GiveBack(Entry& entry);
  void PlaceAgain(Entry& entry, const ServerNames& without, int64_t now_ms);
  Status HoldInPool(const Grant& grant);
  void Try(Line& line, Entry& entry, int64_t now_ms);
  // When a grant that waits for the store does so no more.
  static int64_t StoreUntilMs(const Entry& entry);

  Inventory& pool_;
  std::map<GrantId, Entry> entries_;
  std::set<std::pair<int64_t, GrantId>> due_;  // of each that has not ended; a Beat() makes it later when it comes
  std::set<GrantId> placed_;
  const HolderShares::Bounds waiting_bounds_;
  HolderShares shares_;                             // of those that wait, were tried and did not fit
  std::map<std::string, Line, std::less<>> lines_;  // none is empty
  size_t waiting_ = 0;
  std::vector<GrantId> ended_;  // since the last turn
  std::vector<GrantId> told_;   // of which the last turn told
  std::vector<GrantAction> actions_;
  uint64_t last_number_ = 0;
  uint64_t looks_ = 0;
};

}  // namespace tessera
