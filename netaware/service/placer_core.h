// What a placer decides: joins the pool, the grants, and the servers' nodes.
//
//   PlacerCore core({.cluster = "default"}, std::move(signer), store.epoch(), outside);
//   RETURN_IF_ERROR(core.Load(store.Range(""), now_ms));
//   core.Join(node, now_ms); core.Ask(...); core.Turn(now_ms);     // what is to be done goes to `outside`
//
// Time is an argument: the placer's clock, in milliseconds since 1970. No I/O, and nothing waits. Belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netaware/grants/grant_book.h"
#include "netaware/inventory/inventory.h"
#include "netaware/service/audit_record.h"
#include "netaware/service/equal_refusals.h"
#include "netaware/service/placed_grant.h"
#include "netaware/service/pool_server.h"
#include "netaware/service/waiting_notes.h"
#include "netaware/store/store.h"
#include "protocol/rpc/holder_shares.h"
#include "protocol/ticket/ticket_keys.h"

namespace tessera {

// An order to a node (protocol/control/node.proto).
struct PlacerOrder {
  enum class Kind { kHold, kCancel, kConfirm, kRelease };
  uint64_t number = 0;
  Kind kind = Kind::kHold;
  GrantId grant{};
  std::vector<std::byte> ticket{};  // of kHold
  int64_t until_ms = 0;             // of kHold: its end if nobody confirms; of kRelease: of its last ticket
};

// A grant as its job is told of it.
struct GrantView {
  PlacedGrant grant{};  // parts and tickets: of kGranted alone
  Grant::State state = Grant::State::kWaiting;
  std::string reason{};
};

class PlacerCore {
 public:
  static constexpr int64_t kHoldMs = 60'000;       // a hold that nobody confirms ends then
  static constexpr int64_t kStoreAgainMs = 1'000;  // after the store has failed
  static constexpr int64_t kReturnMs = 5'000;      // in which jobs are back after a start, to hear why they end
  static constexpr int64_t kDiffersMs = 2'000;     // that a server's ledger may differ before it is told again
  static constexpr int64_t kDrainMsMax = 315'360'000'000;
  static constexpr size_t kRequestIdBytesMax = 128;
  // Jobs that wait after a turn. Beyond that of a holder his own oldest end; beyond that of all, the oldest of the holder who has
  // most (protocol/rpc/holder_shares.h).
  static constexpr HolderShares::Bounds kWaiting{.of_holder = 512, .in_all = 4'096};

  struct Options {
    std::string cluster = "default";
    int64_t ticket_ms = 600'000;  // how long a ticket lives; a third of that after it was made it is renewed
    std::string host{};           // the only one where its users are known (uid:N); empty: they are known everywhere
  };
  // What is to be done, in this order. Nothing here calls back.
  class Outside {
   public:
    virtual ~Outside() = default;
    virtual void Send(const std::string& server, const PlacerOrder& order) = 0;
    virtual void Tell(const GrantView& view) = 0;
    // To be made durable; then Kept() with its changes, and Stored() of `grant`: empty when nobody waits for it.
    virtual void Keep(StoreTransaction transaction, std::optional<GrantId> grant) = 0;
  };

  PlacerCore(Options options, TicketSigner signer, uint64_t epoch, Outside& outside)
      : options_(std::move(options)), signer_(std::move(signer)), epoch_(epoch), outside_(outside), book_(pool_, kWaiting) {}

  // What a placer before this one kept. kInvalidArgument: something there is damaged; the sentence names its key. What cannot be
  // as it was is told in the log, and ends.
  Status Load(const std::vector<StoreEntry>& entries, int64_t now_ms);

  // Errors as of Inventory::Join(): the server is not in the pool then.
  Status Join(JoiningNode node, int64_t now_ms);
  // `now_ms` 0: nobody hears of it.
  void Leave(const std::string& server, int64_t now_ms = 0);
  void Beat(const std::string& server, const NodeState& state, int64_t now_ms);
  void Answered(const std::string& server, uint64_t number, bool done, int64_t now_ms);

  struct Ask {
    std::string holder{};
    std::string request_id{};
    Wish wish{};
    uint32_t limit = kWholeShare;
    int64_t wait_ms = -1;
  };
  // The same ask again is the same grant. kInvalidArgument: a field, its value and form; kUnavailable: that grant has ended a
  // moment ago.
  Result<GrantId> Place(const Ask& ask, int64_t now_ms);
  // False: so many jobs of this holder were not tried yet that he should ask for no more before the next turn.
  bool TakesAsks(std::string_view holder) const { return book_.TakesAsks(holder); }
  // A job that waits, and has ended. One that was granted: does nothing.
  void Withdraw(const GrantId& grant);
  // The job is there, whatever it has.
  void Lives(const GrantId& grant, int64_t now_ms) { book_.Beat(grant, now_ms); }
  // kNotFound: there is no such grant.
  Status Renew(const GrantId& grant, int64_t now_ms);
  // `by`: who does it; empty: the holder, or, of Revoke(), the placer.
  Status Release(const GrantId& grant, std::string by = "");
  Status Revoke(const GrantId& grant, std::string reason, std::string by = "");
  // The store has done, or not, what it was given for this grant.
  void Stored(const GrantId& grant, bool done, int64_t now_ms);
  // The store has these changes, or not, whose values are not looked at. What it has not is given to it again with what is stored
  // next, as it is then: a grant that has ended does not come back with the next placer.
  void Kept(const std::vector<StoreChange>& changes, bool done);
  // Whose a grant is that has ended, and that the store may still have; nothing: there is no such grant.
  std::optional<std::string> EndNotStored(const GrantId& grant) const;

  // Remembers what happened. It is stored with what is stored next, which it should tell of, or by StoreNotes(). The same refusal
  // again is counted (EqualRefusals). One write has no more than kNotesOfWrite of one owner, beside what StoreNotes() stores. Of
  // too many that wait whoever has most loses his own (WaitingNotes), with two lines a second in the log.
  void Note(AuditRecord record, int64_t now_ms);
  // Those that wait for something to be stored with, and counts whose minute is over. To be called once a second, and at the end,
  // with INT64_MAX.
  void StoreNotes(int64_t now_ms);
  // The store has not kept these.
  void NotesNotStored(std::vector<StoreRecord> records);

  // What an administrator does with servers: at once in force here, and to be made durable by what is returned. kNotFound: no
  // such server, with the nearest; kInvalidArgument: the reason or the time cannot be. The same again is the same.
  Result<StoreTransaction> Cordon(const std::string& server, const std::string& reason, const std::string& by, int64_t now_ms);
  Result<StoreTransaction> Uncordon(const std::string& server, const std::string& by, int64_t now_ms);
  struct DrainAsk {
    std::string server{};
    std::string reason{};
    std::string by{};
    std::optional<int64_t> within_ms{};  // from now; nothing: what is there ends by itself
  };
  // Kept in the cordon: after a restart, and whenever the server is back.
  Result<StoreTransaction> Drain(const DrainAsk& ask, int64_t now_ms);
  // Forgets a server that is gone for good, and its cordon: jobs that nothing else could run do not wait for it any more. If it
  // comes back, it joins as a new one. kUnsupported: as Inventory::Remove() has it.
  Result<StoreTransaction> Remove(const std::string& server, const std::string& by, int64_t now_ms);
  // What would be wrong with it.
  Status CheckDrain(const DrainAsk& ask) const;
  // nullptr: it is not cordoned.
  const ServerCordon* CordonOf(const std::string& server) const;
  // What is granted there, by id.
  std::vector<GrantView> GrantsOf(const std::string& server) const;
  // Where this would be placed now.
  Placement Plan(const Wish& wish, std::string_view holder, int64_t now_ms) const;
  // As the server said last.
  uint32_t SessionsOf(const std::string& server, const GrantId& grant) const;

  // Does what is due. To be called after each of the above, and at NextMs().
  void Turn(int64_t now_ms);
  int64_t NextMs() const;

  std::optional<GrantView> View(const GrantId& grant) const;
  std::vector<GrantView> ViewAll() const;
  size_t grants() const { return placed_.size(); }  // those that wait too
  const Inventory& pool() const { return pool_; }
  std::string HostOf(const std::string& server) const;
  // Of its node; empty: it has not joined yet.
  std::string ReleaseOf(const std::string& server) const;
  const Options& options() const { return options_; }
  uint64_t epoch() const { return epoch_; }
  std::string public_key() const { return signer_.PublicPem(); }

 private:
  // To be stored, with all that was noted.
  void Keep(StoreChange change, std::optional<GrantId> grant);
  // With what the store has not kept before.
  void KeepAll(StoreTransaction transaction, std::optional<GrantId> grant);
  bool HasEnded(const GrantId& grant) const;
  // Where this holder's tickets are worth something alone; empty: everywhere.
  std::string HostFor(std::string_view holder) const;
  void AddNote(const AuditRecord& record);
  // What was asked since the last turn, as it has become.
  void NoteAsked();
  void NoteEnd(const PlacedGrant& placed, const Grant& grant, int64_t now_ms);
  // What the book has to be done.
  void ActAll(int64_t now_ms);
  void Act(const GrantAction& action, int64_t now_ms);
  // What the book has chosen, by names.
  void TakeParts(PlacedGrant& placed, const Grant& grant) const;
  void Sign(PlacedGrant& placed, int64_t now_ms) const;
  void Order(const std::string& server, PlacerOrder::Kind kind, const GrantId& grant, int64_t until_ms,
             std::vector<std::byte> ticket = {});
  bool HasPartAt(const GrantId& grant, const std::string& server) const;
  // Of a server that joins.
  void CompareLedger(const std::string& server, const std::vector<NodeGrantState>& grants, int64_t now_ms);
  // Of one that is there: an order that it could not keep, since its disk was full, is given again.
  void CompareBeat(const std::string& server, const std::vector<NodeGrantState>& grants, int64_t now_ms);
  Status JoinNow(JoiningNode node, int64_t now_ms);
  Result<GrantId> PlaceNow(const Ask& ask, int64_t now_ms);
  GrantView ViewOf(const PlacedGrant& placed, const Grant& grant) const;
  void TakeCordon(const std::string& server, ServerCordon cordon);
  // The server's record as it is to be kept.
  StoreChange RecordOf(const std::string& server) const;
  // `change` and all that was noted, this too.
  StoreTransaction Noted(const char* action, const std::string& server, const std::string& by, std::string text, int64_t now_ms,
                         StoreChange change);
  // Grants that are asked of a server right now are placed elsewhere.
  void PlaceElsewhere(const std::string& server, int64_t now_ms);
  bool IsGrantedAt(const GrantId& grant, const std::string& server) const;
  void EndDrained(int64_t now_ms);
  int64_t NextDrainMs() const;

  const Options options_;
  const TicketSigner signer_;
  const uint64_t epoch_;
  Outside& outside_;
  Inventory pool_;
  GrantBook book_;
  std::map<GrantId, PlacedGrant> placed_;  // of all that the book has
  std::map<std::string, std::string> hosts_;
  std::map<std::string, std::string> releases_;
  uint64_t last_order_ = 0;
  std::map<std::pair<std::string, GrantId>, int64_t> differs_;       // by server: since when, or when it was told last
  std::map<std::pair<std::string, GrantId>, uint64_t> holds_asked_;  // by server: the last order's number
  // A grant's row in the store.
  struct Row {
    std::string holder{};
    size_t puts = 0;  // under way
    bool is_there = false;
  };
  std::map<GrantId, Row> rows_;     // those that are, or may be, there
  std::set<std::string> not_kept_;  // keys whose last change the store has refused
  // Of one owner: who causes most of what happens delays what is stored of others by no more.
  static constexpr size_t kNotesOfWrite = 128, kNotesOfSecond = 2'048;
  WaitingNotes notes_;
  size_t notes_lost_ = 0;  // since StoreNotes()
  EqualRefusals refusals_;
  std::vector<AuditRecord> asked_;           // since the last turn, which says what becomes of them
  std::map<GrantId, std::string> ended_by_;  // of those of which the next turn tells
  std::set<GrantId> ends_noted_;             // in this turn
  std::map<std::string, ServerCordon> cordons_;
  std::map<std::string, std::map<GrantId, uint32_t>> sessions_;  // by server
  int64_t drains_from_ms_ = 0;                                   // no drain ends anything before
};

// The grant of this request: the same for the same holder and text, and no other's.
GrantId GrantOf(std::string_view cluster, std::string_view holder, std::string_view request_id);

}  // namespace tessera
