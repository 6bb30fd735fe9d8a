// All grants of a pool, from a job's request to its end.
//
//   GrantBook book(pool);
//   book.Ask({.id = id, .holder = "name:alice", .wish = {.share = 500'000}}, now_ms);
//   for (const GrantAction& action : book.Turn(now_ms)) ...         // hold it at gpu7
//   book.Held(id, "gpu7"); book.Turn(now_ms);                       // store it
//   book.Stored(id, now_ms); book.Turn(now_ms);                       // confirm it at gpu7, inform the job
//
// A job learns of its grant when all servers hold their parts and the store has the grant. Afterwards no server can refuse the
// grant, and no crash can lose it. When a server refuses its part, or is silent for kAnswerMs, the book gives back all parts
// and looks for another place. A job's wait ends at its deadline, or at most a few seconds later if a server or the store does
// not answer. Waiting jobs are tried in order of arrival; a job that fits does not wait for one that does not.
//
// The cost of a job does not grow with the waiting jobs of other holders. Each holder has a line of his own. For each line, the
// book looks at no more than kLooksOfHolder GPUs in kSliceMs, but at those of one job at least. When something becomes free,
// the book passes through the line once, in as many slices as needed. It looks at equal wishes once. The constructor's bounds
// limit the waiting jobs that were tried and do not fit. Beyond a holder's bound his own oldest job is revoked; beyond the
// bound for all, the oldest of the holder with the most.
//
// Pure: time is an argument, and the caller carries out the actions. Belongs to one thread, as does the pool, in which the book
// holds the parts of its grants.
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
  static constexpr int64_t kAvoidedMs = 5'000;  // a grant avoids a server that refused it or was silent
  static constexpr int64_t kStoreMs = 5'000;    // for the store, after kAnswerMs, when the wait of the job is over
  static constexpr int64_t kLateMs = 2'000;     // after the deadline, to find another place when a server has refused
  static constexpr int64_t kLookMs = 1'000;     // waiting jobs are tried again after this time at the latest
  static constexpr int64_t kLeaseMs = 60'000;   // a job that is silent for this time has ended
  static constexpr int64_t kSliceMs = 10;
  static constexpr uint64_t kLooksOfHolder = 16'384;  // about a millisecond
  static constexpr size_t kUntriedMax = 64;           // untried jobs of a holder: TakesAsks()

  // `waiting`: bounds on the waiting jobs that were tried and did not fit.
  explicit GrantBook(Inventory& pool, const HolderShares::Bounds& waiting = {.of_holder = SIZE_MAX, .in_all = SIZE_MAX})
      : pool_(pool), waiting_bounds_(waiting), shares_(waiting) {}

  // A repeated ask changes nothing. kInvalidArgument: another ask had that id, or a field is out of bounds; the sentence has
  // the cause.
  Status Ask(const GrantAsk& ask, int64_t now_ms);
  // False: kUntriedMax jobs of this holder are untried, and he should ask for no more before the next turn.
  bool TakesAsks(std::string_view holder) const;
  // Takes over a grant that the store had when the placer began: holds its parts in the pool, and makes it kGranted.
  // kInvalidArgument: the id is in use. Other errors are those of Inventory::Hold(). After an error the caller logs and ends
  // the grant.
  Status Restore(const Grant& grant, int64_t now_ms);

  // Answers to actions. A late answer, or one to no action, changes no grant. A late Held() makes a kCancel for the server.
  void Held(const GrantId& grant, std::string_view server);
  void Refused(const GrantId& grant, std::string_view server, int64_t now_ms);
  void Stored(const GrantId& grant, int64_t now_ms);
  // The store failed: the book gives the parts back and informs the job. It places the job again from `again_ms` on, if the job
  // still waits then.
  void NotStored(const GrantId& grant, int64_t again_ms);

  // The job is alive. Its lease reports that every 10 s, and so does each server that has sessions of it.
  void Beat(const GrantId& grant, int64_t now_ms);
  // The job has ended, or withdraws. kNotFound: there is no such grant, or it has ended.
  Status Release(const GrantId& grant);
  Status Revoke(const GrantId& grant, std::string reason);

  // Returns the actions that are due, each of them once. Call it again after each event, and at NextMs().
  std::vector<GrantAction> Turn(int64_t now_ms);
  // The time of the next Turn() if no event comes before; INT64_MAX: none is needed.
  int64_t NextMs() const;

  // Null: there is no such grant, or its end was reported by a Turn() before the last one.
  const Grant* Find(const GrantId& grant) const;
  size_t size() const { return entries_.size(); }
  // The number of grants in kWaiting.
  size_t waiting() const { return waiting_; }
  // The grants that have parts: those in kHolding, kHeld and kGranted.
  const std::set<GrantId>& placed() const { return placed_; }
  // The number of GPUs looked at for jobs so far.
  uint64_t looks() const { return looks_; }

 private:
  using State = Grant::State;
  struct Entry {
    Grant grant{};
    uint64_t number = 0;          // of the ask, in order of arrival
    int64_t wait_until_ms = 0;    // kWaiting
    int64_t answer_until_ms = 0;  // kHolding
    int64_t not_before_ms = 0;    // kWaiting: it is not placed before this time; 0: at any time
    bool was_held = false;        // it was in kHolding before
    int64_t heard_ms = 0;
    int64_t due_ms = 0;                                     // as in due_; 0: it is not there
    bool is_to_try = false;                                 // in its line's to_try
    bool has_share = false;                                 // it waits, was tried and did not fit: it is in shares_
    ServerNames held{};                                     // servers that hold their parts
    std::map<std::string, int64_t, std::less<>> avoided{};  // by server: until when
  };

  // The waiting jobs of one holder, by number.
  struct Line {
    std::map<uint64_t, GrantId> jobs{};
    std::set<uint64_t> to_try{};  // to be tried even if nothing becomes free: new jobs, and jobs whose time has come
    // Results for wishes that did not fit. They are valid in this pass, while nothing becomes free.
    std::map<Wish, Placement> known{};
    uint64_t known_changes = 0;
    uint64_t next = 0;     // of the pass: the first number that is not tried yet; kNoPass: no pass is under way
    uint64_t changes = 0;  // of the pool, when the last pass began
    int64_t look_ms = 0;   // the latest start of the next pass
    int64_t slice_ms = 0;  // the start of the present slice
    uint64_t looks = 0;    // in the present slice
  };
  static constexpr uint64_t kNoPass = UINT64_MAX;
  static constexpr size_t kKnownMax = 1'024;
  static constexpr uint64_t kLooksOfTell = 64;  // the cost of informing a job of a new reason, in looks

  void Wait(Entry& entry);
  void WaitNoMore(Entry& entry);
  void TryNext(Entry& entry);
  // The time at which Tend() is due for it if no event comes before.
  static int64_t DueMs(const Entry& entry);
  void Schedule(Entry& entry);
  void Tend(Entry& entry, int64_t now_ms);
  void TryAll(int64_t now_ms);
  // Enters a job that did not fit into shares_. An oldest job may be revoked for it.
  void Share(const Entry& entry);
  // The number of the next job to try; kNoPass: there is none, or not in this slice.
  uint64_t NextOf(Line& line, int64_t now_ms) const;
  const Placement& LookAt(Line& line, const Wish& wish, int64_t now_ms);
  Entry* FindIn(const GrantId& grant, State state);
  void Act(GrantAction::Kind kind, const Entry& entry, std::string server = "");
  void Become(Entry& entry, State state, std::string reason = "");
  // Frees its parts in the pool.
  void GiveBack(Entry& entry);
  void PlaceAgain(Entry& entry, const ServerNames& without, int64_t now_ms);
  Status HoldInPool(const Grant& grant);
  void Try(Line& line, Entry& entry, int64_t now_ms);
  // The time until which a grant waits for the store.
  static int64_t StoreUntilMs(const Entry& entry);

  Inventory& pool_;
  std::map<GrantId, Entry> entries_;
  std::set<std::pair<int64_t, GrantId>> due_;  // of each that has not ended; Tend() moves it on after a Beat()
  std::set<GrantId> placed_;
  const HolderShares::Bounds waiting_bounds_;
  HolderShares shares_;                             // of waiting jobs that were tried and did not fit
  std::map<std::string, Line, std::less<>> lines_;  // none is empty
  size_t waiting_ = 0;
  std::vector<GrantId> ended_;  // since the last turn
  std::vector<GrantId> told_;   // ended grants that the last turn reported
  std::vector<GrantAction> actions_;
  uint64_t last_number_ = 0;
  uint64_t looks_ = 0;
};

}  // namespace tessera
