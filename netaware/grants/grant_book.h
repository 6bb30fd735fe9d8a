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
// Pure: time is an argument, and actions are the caller's. Belongs to one thread, as does the pool, in which it holds what it
// has.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "netaware/grants/grant.h"
#include "netaware/inventory/inventory.h"
#include "protocol/base/status.h"

namespace tessera {

class GrantBook {
 public:
  static constexpr int64_t kAnswerMs = 1'000;   // for a server to hold a part
  static constexpr int64_t kAvoidedMs = 5'000;  // a server that refused or was silent gets nothing of this grant for so long
  static constexpr int64_t kStoreMs = 5'000;    // for the store, of a grant whose job does not wait any longer
  static constexpr int64_t kLateMs = 2'000;     // for other places, when a job that was to be placed by then was refused
  static constexpr int64_t kLookMs = 1'000;     // after which jobs that wait are looked at again, whatever happens
  static constexpr int64_t kLeaseMs = 60'000;   // a job of which nothing is heard has ended then

  explicit GrantBook(Inventory& pool) : pool_(pool) {}

  // The same ask again changes nothing. kInvalidArgument: another one had that id; or what is asked cannot be, with the field.
  Status Ask(const GrantAsk& ask, int64_t now_ms);
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
  // Those that wait (kWaiting), by a number that grows: who came first is first.
  const std::map<uint64_t, GrantId>& waiting() const { return waiting_; }

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
    ServerNames held{};                                     // servers that hold their parts
    std::map<std::string, int64_t, std::less<>> avoided{};  // servers, until when
  };

  Entry* FindIn(const GrantId& grant, State state);
  void Act(GrantAction::Kind kind, const Entry& entry, std::string server = "");
  void Become(Entry& entry, State state, std::string reason = "");
  // Its parts are nobody's any more.
  void GiveBack(Entry& entry);
  void PlaceAgain(Entry& entry, const ServerNames& without, int64_t now_ms);
  Status HoldInPool(const Grant& grant);
  void Try(Entry& entry, int64_t now_ms);
  // When a grant that waits for the store does so no more.
  static int64_t StoreUntilMs(const Entry& entry);

  Inventory& pool_;
  std::map<GrantId, Entry> entries_;
  std::map<uint64_t, GrantId> waiting_;  // by number
  std::vector<GrantId> ended_;           // since the last turn
  std::vector<GrantId> told_;            // of which the last turn told
  std::vector<GrantAction> actions_;
  uint64_t last_number_ = 0;
  uint64_t pool_changes_ = 0;  // of the last look at those that wait
  int64_t look_again_ms_ = 0;
};

}  // namespace tessera
