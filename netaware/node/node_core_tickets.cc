// The part of NodeCore that answers tickets.
#include <algorithm>

#include "netaware/node/node_core.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/ticket/ticket_check.h"

namespace tessera {

Status NodeCore::CheckShown(const Ticket& ticket, const std::string& holder, TicketScene::Grant state, NodeTime now) const {
  return CheckTicket(ticket, {.cluster = placer_.cluster(),
                              .server = server_,
                              .holder = holder,
                              .now_ms = placer_.PlacerMs(now),
                              .newest_epoch = ledger_->newest_epoch(),
                              .grant = state});
}

void NodeCore::AnswerTicket(uint64_t id, const std::string& holder, const Status& status, const std::string& vgpus) {
  // A client can present invalid tickets any number of times, so the log is rate-limited.
  if (!status.ok()) LogStranger("a ticket that {} has shown is refused: {}", Printable(holder), status.message());
  out_.AnswerTicket(id, status, vgpus);
}

void NodeCore::Ask(ShownTicket shown, NodeTime now) {
  const auto refuse = [&](const Status& why) { AnswerTicket(shown.id, shown.holder, why); };
  if (placer_.cluster().empty()) {
    return refuse(Status(StatusCode::kUnavailable, "this server has met no placer yet that says whose tickets count: try again"));
  }
  Result<Ticket> ticket = placer_.keys().Open(shown.ticket);
  if (!ticket.ok()) return refuse(ticket.status());
  const TicketScene::Grant state = ledger_->StateOf(ticket->grant, placer_.PlacerMs(now));
  if (const Status status = CheckShown(*ticket, shown.holder, state, now); !status.ok()) return refuse(status);
  if (tickets_.size() >= kTicketsMax) {
    return refuse(Status(StatusCode::kResourceExhausted, "too many tickets wait for an answer at this server: try again"));
  }
  const int64_t until_ms = now.steady_ms + kTicketMs;
  if (state == TicketScene::Grant::kUnknown) {
    // The ledger was lost, or the ticket has arrived before the placer's order.
    const Status held = CarryOne(LedgerOrder::Kind::kHold, *ticket, ticket->epoch, now);
    if (!held.ok()) return refuse(held);
    Making& making = making_[ticket->grant];
    making.takes_in = true;
    making.until_ms = std::max(making.until_ms, until_ms);
    LogInfo("the grant {} of {} is taken in by its ticket", GrantText(ticket->grant), ticket->holder);
  }
  tickets_.push_back({shown.id, std::move(shown.holder), ticket->grant, until_ms});
}

void NodeCore::SettleTickets(NodeTime now) {
  for (auto each = tickets_.begin(); each != tickets_.end();) {
    const LedgerGrant* const there = ledger_->Find(each->grant);
    const auto making = making_.find(each->grant);
    const bool is_taken_in = making == making_.end() || !making->second.takes_in;
    if (there == nullptr || there->state == LedgerGrant::State::kReleased) {
      AnswerTicket(each->id, each->holder,
                   Status(StatusCode::kPermissionDenied, "the ticket's grant was released: ask the placer for another"));
    } else if (is_taken_in && vgpus_.IsThere(there->ticket)) {
      AnswerTicket(each->id, each->holder, Status::Ok(), GrantVgpuNames(there->ticket));
    } else if (const Status refusal = vgpus_.Refusal(there->ticket); !refusal.ok()) {
      AnswerTicket(each->id, each->holder, refusal);
    } else if (now.steady_ms >= each->until_ms) {
      AnswerTicket(each->id, each->holder, Status(StatusCode::kUnavailable, "the server's broker does not answer: try again"));
    } else {
      ++each;
      continue;
    }
    each = tickets_.erase(each);
  }
}

}  // namespace tessera
