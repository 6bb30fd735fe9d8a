// Which grants have a part of this server: what its node must not forget, and what the placer's orders do to it.
//
//   Result<std::unique_ptr<GrantLedger>> ledger = GrantLedger::Open(store);
//   ledger->Carry({{{.kind = LedgerOrder::Kind::kHold, .epoch = 3, .ticket = ticket, .until_ms = now_ms + kHoldMs}}}, ...);
//
// A grant is held, then granted, then released; a hold that nobody confirms ends by itself, a grant never by time alone. A grant
// that was released stays known until its last ticket has expired, so that no ticket of it is taken again. What the ledger says
// is durable when Carry() returns. What is handed out of a GPU is the broker's to know, not the ledger's.
//
// Time is an argument: the placer's clock, in milliseconds since 1970. Belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "netaware/ledger/ledger_grant.h"
#include "netaware/store/store.h"
#include "protocol/base/status.h"
#include "protocol/ticket/ticket.h"
#include "protocol/ticket/ticket_check.h"

namespace tessera {

struct LedgerOrder {
  enum class Kind {
    kHold,     // `ticket`, until `until_ms`
    kCancel,   // it will not be granted, and no ticket of it was made: nothing of it is kept
    kConfirm,  // it is granted
    kRelease,  // whatever it is; its tickets end at `until_ms`
  };
  Kind kind = Kind::kHold;
  uint64_t epoch = 0;  // of the placer that gives the order
  Ticket ticket{};     // of kHold: whole; of the others its grant counts
  int64_t until_ms = 0;
};

class GrantLedger {
 public:
  // Reads what is there. kInvalidArgument: something there is no grant; the sentence names its key. `store` outlives the ledger.
  static Result<std::unique_ptr<GrantLedger>> Open(Store& store);

  // A placer of this epoch is there. kPermissionDenied: a newer one was seen; kResourceExhausted: the store failed.
  Status See(uint64_t epoch);
  // A status for each, in order, as if one came after the other. An order that was carried out before is carried out again, and
  // changes nothing. A hold may be of a grant that was released before: a placer that had not heard of its hold gave it back. Its
  // tickets of then are forgotten by no cancel. kPermissionDenied: a newer epoch was seen, or kConfirm of a grant that was
  // released; kInvalidArgument: the grant is another's, or has something else here, or kCancel of one that was granted;
  // kNotFound: kConfirm of a grant that is not held, or not any more. kResourceExhausted, of all that had none of these: the
  // store failed, and nothing has changed.
  std::vector<Status> Carry(std::span<const LedgerOrder> orders, int64_t now_ms);
  // Ends holds and forgets released grants whose time is over; the holds that ended, whose vGPUs are to go. A store that fails:
  // none ends before it works again.
  std::vector<Ticket::Grant> Expire(int64_t now_ms);

  // Null: it is not known.
  const LedgerGrant* Find(const Ticket::Grant& grant) const;
  const std::map<Ticket::Grant, LedgerGrant>& grants() const { return grants_; }
  // For CheckTicket().
  TicketScene::Grant StateOf(const Ticket::Grant& grant, int64_t now_ms) const;
  uint64_t newest_epoch() const { return newest_epoch_; }

 private:
  using Grants = std::map<Ticket::Grant, LedgerGrant>;
  // What orders have changed and the store does not have yet. Nothing: the grant is forgotten.
  using Changes = std::map<Ticket::Grant, std::optional<LedgerGrant>>;

  explicit GrantLedger(Store& store) : store_(store) {}

  Status Read();
  Status CarryOne(const LedgerOrder& order, int64_t now_ms, uint64_t* newest_epoch, Changes* changes) const;
  Status Keep(uint64_t newest_epoch, const Changes& changes);

  Store& store_;
  Grants grants_;
  uint64_t newest_epoch_ = 0;
};

}  // namespace tessera
