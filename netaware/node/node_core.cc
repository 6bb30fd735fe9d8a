#include "netaware/node/node_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/ticket/ticket_check.h"

namespace tessera {
namespace {

// The part of the GPU's memory that a vGPU may take. A vGPU without a limit may take all of it.
uint64_t TakenBy(const ServerVgpu& vgpu, const ServerGpu& gpu) {
  return vgpu.memory_bytes == 0 ? gpu.memory_bytes : vgpu.memory_bytes + vgpu.processes * gpu.context_bytes;
}

// The context memory of sessions beyond the grant's number of processes: the broker let them in because that memory was
// promised to nobody.
uint64_t BesideGrant(const ServerVgpu& vgpu, const ServerGpu& gpu) {
  return (vgpu.sessions - std::min(vgpu.sessions, vgpu.processes)) * gpu.context_bytes;
}

Status OutOfBounds(std::string why) { return Status(StatusCode::kInvalidArgument, std::move(why)); }

}  // namespace

Result<std::unique_ptr<NodeCore>> NodeCore::Open(Store& store, std::string server, NodeOut& out, NodeTime now) {
  Result<std::unique_ptr<GrantLedger>> ledger = GrantLedger::Open(store);
  if (!ledger.ok()) return ledger.status();
  Result<KnownPlacer> placer = KnownPlacer::Open(store, now);
  if (!placer.ok()) return placer.status();
  return std::unique_ptr<NodeCore>(
      new NodeCore(store, std::move(server), out, std::move(ledger).value(), std::move(placer).value()));
}

Status NodeCore::Welcomed(const NodeWelcome& welcome, NodeTime now) {
  PlacerLost();
  if (welcome.epoch == 0) return OutOfBounds("the placer has no epoch");
  // The order matters: the ledger must not record another pool's epoch, and an older placer's keys must not be stored.
  RETURN_IF_ERROR(placer_.Check(welcome.cluster, welcome.ticket_keys));
  RETURN_IF_ERROR(ledger_->See(welcome.epoch));
  RETURN_IF_ERROR(placer_.Learn(welcome.cluster, welcome.ticket_keys, welcome.now_ms, now));
  epoch_ = welcome.epoch;
  return Status::Ok();
}

void NodeCore::PlacerLost() {
  epoch_ = 0;
  orders_.clear();
  answers_.clear();
  for (auto& [grant, making] : making_) making.orders.clear();
  ending_.clear();
}

void NodeCore::Take(NodeOrder order) {
  if (epoch_ == 0) return;  // the order is from a stream that this node has ended
  const auto [known, is_new] = answers_.try_emplace(order.number, std::nullopt);
  if (!is_new) {
    if (known->second) out_.AnswerOrder(order.number, *known->second);
    return;
  }
  if (answers_.size() > kOrdersKept && answers_.begin()->second) answers_.erase(answers_.begin());
  orders_.push_back(std::move(order));
}

void NodeCore::AnswerOrder(uint64_t number, const Status& status) {
  answers_[number] = status;
  out_.AnswerOrder(number, status);
}

int64_t NodeCore::Turn(NodeTime now) {
  Expire(now);
  CarryOrders(now);
  for (const GrantVgpus::Call& call : vgpus_.Turn(ledger_->grants(), now.steady_ms)) out_.CallBroker(call);
  Settle(now);
  // Settle() may have given up grants: their vGPUs are deleted now.
  for (const GrantVgpus::Call& call : vgpus_.Turn(ledger_->grants(), now.steady_ms)) out_.CallBroker(call);
  return NextMs();
}

void NodeCore::Expire(NodeTime now) {
  if (now.steady_ms < expire_ms_) return;
  expire_ms_ = now.steady_ms + kExpireMs;
  for (const Ticket::Grant& grant : ledger_->Expire(placer_.PlacerMs(now))) {
    LogInfo("the hold of the grant {} has ended", GrantText(grant));
    vgpus_.LedgerChanged();
    const auto making = making_.find(grant);
    if (making == making_.end()) continue;
    GiveUp(grant, making->second, Status(StatusCode::kNotFound, "the hold has ended"), now);
    making_.erase(making);
  }
}

// Translates an order for the ledger, or returns the reason to refuse it.
Status NodeCore::LedgerOrderOf(const NodeOrder& order, NodeTime now, LedgerOrder* carried) const {
  const std::optional<Ticket::Grant> grant = ParseGrant(order.grant);
  if (!grant) return OutOfBounds(fmt::format("'{}' is no grant", Printable(order.grant)));
  carried->epoch = epoch_;
  carried->until_ms = order.until_ms;
  carried->ticket.grant = *grant;
  switch (order.kind) {
    case NodeOrder::Kind::kCancel: carried->kind = LedgerOrder::Kind::kCancel; return Status::Ok();
    case NodeOrder::Kind::kConfirm: carried->kind = LedgerOrder::Kind::kConfirm; return Status::Ok();
    case NodeOrder::Kind::kRelease: carried->kind = LedgerOrder::Kind::kRelease; return Status::Ok();
    case NodeOrder::Kind::kUnknown:
      return Status(StatusCode::kUnsupported, "the node does not know such an order: it is of another release");
    case NodeOrder::Kind::kHold: carried->kind = LedgerOrder::Kind::kHold; break;
  }
  Result<Ticket> ticket = placer_.keys().Open(order.ticket);
  if (!ticket.ok()) return ticket.status();
  if (ticket->grant != *grant) return OutOfBounds(fmt::format("the ticket is of the grant {}", GrantText(ticket->grant)));
  if (ticket->epoch != epoch_) {
    return Status(StatusCode::kPermissionDenied,
                  fmt::format("the ticket is of epoch {} of the placer, and this stream of {}", ticket->epoch, epoch_));
  }
  // The ledger checks later if the grant exists or was released.
  RETURN_IF_ERROR(CheckShown(*ticket, ticket->holder, TicketScene::Grant::kUnknown, now));
  const int64_t now_ms = placer_.PlacerMs(now);
  if (order.until_ms <= now_ms) return Status(StatusCode::kTimedOut, "the hold has ended before it came");
  carried->until_ms = std::min(order.until_ms, now_ms + kHoldMs);
  carried->ticket = std::move(ticket).value();
  return Status::Ok();
}

void NodeCore::CarryOrders(NodeTime now) {
  std::vector<NodeOrder> orders;
  std::vector<LedgerOrder> carried;
  for (NodeOrder& order : std::exchange(orders_, {})) {
    LedgerOrder next;
    if (const Status status = LedgerOrderOf(order, now, &next); !status.ok()) {
      AnswerOrder(order.number, status);
      continue;
    }
    orders.push_back(std::move(order));
    carried.push_back(std::move(next));
  }
  if (orders.empty()) return;
  const std::vector<Status> results = ledger_->Carry(carried, placer_.PlacerMs(now));
  for (size_t i = 0; i < orders.size(); ++i) {
    if (results[i].ok()) {
      Carried(orders[i], carried[i], now);
    } else {
      AnswerOrder(orders[i].number, results[i]);
    }
  }
}

void NodeCore::Carried(const NodeOrder& order, const LedgerOrder& carried, NodeTime now) {
  const Ticket::Grant& grant = carried.ticket.grant;
  LogDebug("order {}: {} the grant {}", order.number, static_cast<int>(order.kind), order.grant);
  switch (carried.kind) {
    case LedgerOrder::Kind::kConfirm: return AnswerOrder(order.number, Status::Ok());
    case LedgerOrder::Kind::kHold: {
      vgpus_.TryAnew(carried.ticket);
      Making& making = making_[grant];
      making.orders.push_back(order.number);
      making.until_ms = now.steady_ms + kMakeMs;
      return;
    }
    case LedgerOrder::Kind::kCancel:
    case LedgerOrder::Kind::kRelease: {
      if (const auto making = making_.find(grant); making != making_.end()) {
        const bool is_release = carried.kind == LedgerOrder::Kind::kRelease;
        GiveUp(grant, making->second,
               Status(StatusCode::kPermissionDenied, is_release ? "the grant was released" : "the hold was taken back"), now);
        making_.erase(making);
      }
      ending_.push_back({order.number, grant, now.steady_ms + kMakeMs});
      vgpus_.LedgerChanged();
      return;
    }
  }
}

Status NodeCore::CarryOne(LedgerOrder::Kind kind, const Ticket& ticket, uint64_t epoch, NodeTime now) {
  LedgerOrder order{.kind = kind, .epoch = std::max(epoch, ledger_->newest_epoch()), .ticket = ticket};
  const int64_t now_ms = placer_.PlacerMs(now);
  order.until_ms = now_ms + kHoldMs;
  vgpus_.LedgerChanged();
  return ledger_->Carry({&order, 1}, now_ms).front();
}

void NodeCore::GiveUp(const Ticket::Grant& grant, const Making& making, const Status& why, NodeTime now) {
  const LedgerGrant* const there = ledger_->Find(grant);
  if (there != nullptr && there->state == LedgerGrant::State::kHeld) {
    const Ticket ticket = there->ticket;
    const Status cancelled = CarryOne(LedgerOrder::Kind::kCancel, ticket, 0, now);
    // If the cancel failed, the hold ends at its deadline.
    if (!cancelled.ok()) LogWarning("the hold of the grant {} is not taken back: {}", GrantText(grant), cancelled.message());
  }
  for (const uint64_t number : making.orders) AnswerOrder(number, why);
  for (auto each = tickets_.begin(); each != tickets_.end();) {
    if (each->grant == grant) {
      AnswerTicket(each->id, each->holder, why);
      each = tickets_.erase(each);
    } else {
      ++each;
    }
  }
}

void NodeCore::Settle(NodeTime now) {
  SettleMaking(now);
  std::erase_if(ending_, [&](const Ending& each) {
    const bool waits = vgpus_.is_connected() && vgpus_.IsAnyThere(each.grant) && now.steady_ms < each.until_ms;
    if (!waits) AnswerOrder(each.order, Status::Ok());
    return !waits;
  });
  SettleTickets(now);
}

void NodeCore::SettleMaking(NodeTime now) {
  for (auto each = making_.begin(); each != making_.end();) {
    const auto& [grant, making] = *each;
    const LedgerGrant* const there = ledger_->Find(grant);
    Status why;
    if (there == nullptr || there->state == LedgerGrant::State::kReleased) {
      why = Status(StatusCode::kNotFound, "the grant has ended");
    } else if (vgpus_.IsThere(there->ticket)) {
      if (making.takes_in) why = CarryOne(LedgerOrder::Kind::kConfirm, there->ticket, 0, now);
      if (why.ok()) {
        for (const uint64_t number : making.orders) AnswerOrder(number, Status::Ok());
      }
    } else if (why = vgpus_.Refusal(there->ticket); why.ok()) {
      if (now.steady_ms < making.until_ms) {
        ++each;
        continue;
      }
      why = Status(StatusCode::kUnavailable, "the server's broker does not answer");
    }
    if (!why.ok()) GiveUp(grant, making, why, now);
    each = making_.erase(each);
  }
}

int64_t NodeCore::NextMs() const {
  int64_t next_ms = vgpus_.NextMs();
  const auto ends = [](const auto& each) { return each.second.state != LedgerGrant::State::kGranted; };
  if (std::ranges::any_of(ledger_->grants(), ends)) next_ms = std::min(next_ms, expire_ms_);
  for (const auto& [grant, making] : making_) next_ms = std::min(next_ms, making.until_ms);
  for (const Ending& each : ending_) next_ms = std::min(next_ms, each.until_ms);
  for (const WaitingTicket& each : tickets_) next_ms = std::min(next_ms, each.until_ms);
  return next_ms;
}

NodeBeat NodeCore::Beat(NodeTime now) const {
  NodeBeat beat;
  if (vgpus_.list() == nullptr) return beat;
  std::map<Ticket::Grant, uint32_t> sessions;
  const std::vector<ServerGpu>& gpus = vgpus_.list()->gpus;
  for (const ServerGpu& gpu : gpus) beat.others.push_back({.share = gpu.kept_share});
  for (const ServerVgpu& vgpu : vgpus_.list()->vgpus) {
    std::optional<Ticket::Grant> grant = vgpu.is_of_api ? GrantOfVgpu(vgpu.name) : std::nullopt;
    if (grant && ledger_->Find(*grant) == nullptr) grant.reset();
    if (grant) sessions[*grant] = std::max(sessions[*grant], vgpu.sessions);
    const auto gpu = std::ranges::find(gpus, vgpu.gpu, &ServerGpu::uuid);
    if (!vgpu.is_in_force || gpu == gpus.end()) continue;
    NodeBeat::Others& others = beat.others[static_cast<size_t>(gpu - gpus.begin())];
    if (!grant) others.share += vgpu.request;
    others.memory_bytes += std::min(grant ? BesideGrant(vgpu, *gpu) : TakenBy(vgpu, *gpu), gpu->memory_bytes);
    others.memory_bytes = std::min(others.memory_bytes, gpu->memory_bytes);
  }
  for (const auto& [id, grant] : ledger_->grants()) {
    if (ledger_->StateOf(id, placer_.PlacerMs(now)) != TicketScene::Grant::kHeld) continue;
    beat.grants.push_back(
        {.grant = GrantText(id), .is_held = grant.state == LedgerGrant::State::kHeld, .sessions = sessions[id]});
  }
  return beat;
}

}  // namespace tessera
