// The grants that have a part of this server. The ledger is durable, and carries out the placer's orders.
//
//   Result<std::unique_ptr<GrantLedger>> ledger = GrantLedger::Open(store);
//   ledger->Carry({{{.kind = LedgerOrder::Kind::kHold, .epoch = 3, .ticket = ticket, .until_ms = now_ms + kHoldMs}}}, ...);
//
// A grant is held, then granted, then released. An unconfirmed hold expires; a granted one ends only by an order. A released
// grant stays known until its last ticket has expired, so that no ticket of it is accepted again. All changes are durable when
// Carry() returns. The broker, and not the ledger, knows which parts of a GPU are in use.
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
    kCancel,   // it will not be granted, and no job got its tickets: forgets the hold
    kConfirm,  // it is granted
    kRelease,  // ends it in any state; its tickets expire at `until_ms`
  };
  Kind kind = Kind::kHold;
  uint64_t epoch = 0;  // of the placer that gives the order
  Ticket ticket{};     // of kHold: complete; of the others only its grant is used
  int64_t until_ms = 0;
};

class GrantLedger {
 public:
  // Reads the stored grants and epoch. kInvalidArgument: an entry is damaged; the sentence names its key. `store` outlives the
  // ledger.
  static Result<std::unique_ptr<GrantLedger>> Open(Store& store);

  // Stores the epoch of a connected placer. kPermissionDenied: a newer epoch was seen; kResourceExhausted: the store failed.
  Status See(uint64_t epoch);
  // Carries out the orders one after the other, and returns a status for each. A repeated order succeeds and changes nothing. A
  // hold may be of a grant that was released before: its placer had missed the answer to the first hold, and gave it back. A
  // cancel of the new hold does not forget the earlier release. kPermissionDenied: a newer epoch was seen, or kConfirm of a
  // grant that was released; kInvalidArgument: the grant is another's, or has something else here, or kCancel of one that was
  // granted; kNotFound: kConfirm of a grant that is not held, or not any more. kResourceExhausted, for all orders without
  // another error: the store failed, and nothing has changed.
  std::vector<Status> Carry(std::span<const LedgerOrder> orders, int64_t now_ms);
  // Ends holds and forgets released grants whose time is over. Returns the ended holds, whose vGPUs the caller removes. If the
  // store fails, nothing ends before it works again.
  std::vector<Ticket::Grant> Expire(int64_t now_ms);

  // Null: it is not known.
  const LedgerGrant* Find(const Ticket::Grant& grant) const;
  const std::map<Ticket::Grant, LedgerGrant>& grants() const { return grants_; }
  // For CheckTicket().
  TicketScene::Grant StateOf(const Ticket::Grant& grant, int64_t now_ms) const;
  uint64_t newest_epoch() const { return newest_epoch_; }

 private:
  using Grants = std::map<Ticket::Grant, LedgerGrant>;
  // Changes by orders that are not stored yet. nullopt: the grant is forgotten.
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
