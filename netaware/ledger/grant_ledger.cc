#include "netaware/ledger/grant_ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "netaware/ledger/stored_grant.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using State = LedgerGrant::State;
using Kind = LedgerOrder::Kind;

Status Refused(StatusCode code, std::string why) { return Status(code, std::move(why)); }

// The rest of a hold that ends: the earlier release of its grant. nullopt: there was none, or its time is over.
std::optional<LedgerGrant> WithoutHold(const LedgerGrant& held, int64_t now_ms) {
  if (held.released_until_ms <= now_ms) return std::nullopt;
  LedgerGrant released{.state = State::kReleased, .until_ms = held.released_until_ms};
  released.ticket.grant = held.ticket.grant;
  return released;
}

// The grant as it is at `now_ms`, when its time may be over; nullopt: it has ended.
std::optional<LedgerGrant> AsOf(const LedgerGrant& grant, int64_t now_ms) {
  if (grant.state == State::kGranted || grant.until_ms > now_ms) return grant;
  return grant.state == State::kHeld ? WithoutHold(grant, now_ms) : std::nullopt;
}

// True if both tickets give the same vGPUs to the same holder. A placer that restarted, or that missed the answer to its hold,
// asks with a newly signed ticket.
bool HasTheSame(const Ticket& held, const Ticket& asked) {
  return held.cluster == asked.cluster && held.server == asked.server && held.holder == asked.holder && held.vgpus == asked.vgpus;
}

Status IsOld(const char* what, uint64_t epoch, uint64_t newest_epoch) {
  return Refused(
      StatusCode::kPermissionDenied,
      fmt::format("{} is of epoch {} of the placer, and {} was seen: another placer has taken over", what, epoch, newest_epoch));
}

}  // namespace

Result<std::unique_ptr<GrantLedger>> GrantLedger::Open(Store& store) {
  std::unique_ptr<GrantLedger> ledger(new GrantLedger(store));
  if (Status status = ledger->Read(); !status.ok()) return status;
  return ledger;
}

Status GrantLedger::Read() {
  for (const StoreEntry& entry : store_.Range(kGrantKeys)) {
    Result<LedgerGrant> grant = StoredGrant(entry.value);
    if (!grant.ok() || KeyOf(grant->ticket.grant) != entry.key) {
      return Status(
          StatusCode::kInvalidArgument,
          fmt::format("the ledger of this server's grants is damaged at '{}': bring a copy back, or remove it when no job "
                      "of the pool runs here",
                      Printable(entry.key)));
    }
    grants_.emplace(grant->ticket.grant, std::move(grant).value());
  }
  if (const std::optional<StoreEntry> entry = store_.Get(kEpochKey)) {
    Result<uint64_t> epoch = StoredEpoch(entry->value);
    if (!epoch.ok()) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("the ledger of this server's grants is damaged at '{}'", kEpochKey));
    }
    newest_epoch_ = *epoch;
  }
  return Status::Ok();
}

Status GrantLedger::CarryOne(const LedgerOrder& order, int64_t now_ms, uint64_t* newest_epoch, Changes* changes) const {
  if (order.epoch < *newest_epoch) return IsOld("the order", order.epoch, *newest_epoch);
  *newest_epoch = order.epoch;
  const Ticket::Grant& id = order.ticket.grant;
  const LedgerGrant* there = Find(id);
  if (const auto changed = changes->find(id); changed != changes->end()) there = changed->second ? &*changed->second : nullptr;
  const std::optional<LedgerGrant> present = there == nullptr ? std::nullopt : AsOf(*there, now_ms);
  there = present ? &*present : nullptr;

  if (order.kind == Kind::kRelease) {
    if (there != nullptr && there->state == State::kReleased && there->until_ms >= order.until_ms) return Status::Ok();
    LedgerGrant released{.state = State::kReleased, .until_ms = order.until_ms};
    released.ticket.grant = id;
    (*changes)[id] = std::move(released);
    return Status::Ok();
  }
  if (order.kind == Kind::kCancel) {
    if (there == nullptr || there->state == State::kReleased) return Status::Ok();
    if (there->state != State::kHeld) return Refused(StatusCode::kInvalidArgument, "the grant was granted: it can be released");
    (*changes)[id] = WithoutHold(*there, now_ms);
    return Status::Ok();
  }
  if (order.kind == Kind::kConfirm) {
    if (there != nullptr && there->state == State::kReleased)
      return Refused(StatusCode::kPermissionDenied, "the grant was released");
    if (there == nullptr) return Refused(StatusCode::kNotFound, "the grant is not held here, or its hold has ended");
    if (there->state == State::kGranted) return Status::Ok();
    (*changes)[id] = LedgerGrant{.state = State::kGranted, .until_ms = 0, .ticket = there->ticket};
    return Status::Ok();
  }
  int64_t released_until_ms = 0;
  if (there != nullptr && there->state == State::kReleased) {
    // The placer missed the answer to its hold, and asks again for the same job.
    released_until_ms = there->until_ms;
  } else if (there != nullptr) {
    if (!HasTheSame(there->ticket, order.ticket)) {
      return Refused(StatusCode::kInvalidArgument,
                     fmt::format("a grant of that number is {}'s, or has something else here", Printable(there->ticket.holder)));
    }
    if (there->state == State::kGranted || there->ticket == order.ticket) return Status::Ok();
    released_until_ms = there->released_until_ms;
  }
  (*changes)[id] = LedgerGrant{
      .state = State::kHeld, .until_ms = order.until_ms, .ticket = order.ticket, .released_until_ms = released_until_ms};
  return Status::Ok();
}

Status GrantLedger::Keep(uint64_t newest_epoch, const Changes& changes) {
  StoreTransaction transaction;
  if (newest_epoch != newest_epoch_) transaction.changes.push_back({std::string(kEpochKey), StoredForm(newest_epoch)});
  for (const auto& [id, grant] : changes) {
    transaction.changes.push_back({KeyOf(id), grant ? std::optional(StoredForm(*grant)) : std::nullopt});
  }
  if (transaction.changes.empty()) return Status::Ok();
  const StoreResult kept = store_.Commit({&transaction, 1}).front();
  if (kept.outcome != StoreResult::Outcome::kDone) return Status(StatusCode::kResourceExhausted, kept.reason);
  newest_epoch_ = newest_epoch;
  for (const auto& [id, grant] : changes) {
    if (grant) {
      grants_[id] = *grant;
    } else {
      grants_.erase(id);
    }
  }
  return Status::Ok();
}

Status GrantLedger::See(uint64_t epoch) {
  if (epoch < newest_epoch_) return IsOld("its stream", epoch, newest_epoch_);
  return Keep(epoch, {});
}

std::vector<Status> GrantLedger::Carry(std::span<const LedgerOrder> orders, int64_t now_ms) {
  std::vector<Status> results;
  uint64_t newest_epoch = newest_epoch_;
  Changes changes;
  for (const LedgerOrder& order : orders) results.push_back(CarryOne(order, now_ms, &newest_epoch, &changes));
  if (const Status kept = Keep(newest_epoch, changes); !kept.ok()) {
    for (Status& result : results) {
      if (result.ok()) result = kept;
    }
  }
  return results;
}

std::vector<Ticket::Grant> GrantLedger::Expire(int64_t now_ms) {
  Changes changes;
  std::vector<Ticket::Grant> ended;
  for (const auto& [id, grant] : grants_) {
    if (grant.state == State::kGranted || grant.until_ms > now_ms) continue;
    changes[id] = AsOf(grant, now_ms);
    if (grant.state == State::kHeld) ended.push_back(id);
  }
  return Keep(newest_epoch_, changes).ok() ? ended : std::vector<Ticket::Grant>{};
}

const LedgerGrant* GrantLedger::Find(const Ticket::Grant& grant) const {
  const auto there = grants_.find(grant);
  return there == grants_.end() ? nullptr : &there->second;
}

TicketScene::Grant GrantLedger::StateOf(const Ticket::Grant& grant, int64_t now_ms) const {
  const LedgerGrant* const there = Find(grant);
  const std::optional<LedgerGrant> present = there == nullptr ? std::nullopt : AsOf(*there, now_ms);
  if (!present) return TicketScene::Grant::kUnknown;
  return present->state == State::kReleased ? TicketScene::Grant::kReleased : TicketScene::Grant::kHeld;
}

}  // namespace tessera
