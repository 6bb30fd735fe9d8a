// What the supervisor and the node have to do with one another: clients who show a ticket.
#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/printable.h"
#include "server/daemon/supervisor.h"

namespace tessera {

Status Supervisor::StartNode() {
  std::vector<std::string> urls;
  for (const GatewayProcess& gateway : gateways_) urls.push_back(gateway.url);
  urls.push_back("unix:" + options_.listen_path);
  return node_.Start(std::move(urls));
}

bool Supervisor::RefuseWithoutTicket(const Silent& client, bool has_ticket, bool is_query) {
  const StatusCode code = is_query ? StatusCode::kPermissionDenied : StatusCode::kResourceExhausted;
  if (has_ticket && options_.placer_url.empty()) {
    TurnAway(client, Status(code,
                            "this server is of no pool and takes no tickets: leave TESSERA_TICKET out, and name the server "
                            "with --server"));
    return true;
  }
  if (!has_ticket && options_.needs_ticket) {
    TurnAway(client, Status(code, "this server is of a pool and takes jobs that the placer of " + Printable(options_.placer_url) +
                                      " sends: use 'tessera run --gpu-share SHARE' in place of --server and --vgpu"));
    return true;
  }
  return false;
}

void Supervisor::AskNode(const Asked& asked) {
  TicketQuestion question;
  question.id = asked.question.id;
  question.holder = asked.question.holder;
  question.ticket = asked.ticket;
  node_.Ask(question);
}

void Supervisor::TakeTicketAnswer(const TicketAnswer& answer) {
  const auto found =
      std::ranges::find_if(asked_, [&](const Asked& each) { return each.question.id == answer.id && !each.ticket.empty(); });
  if (found == asked_.end()) return;
  if (answer.code == StatusCode::kOk) {
    found->ticket.clear();
    found->question.vgpus = answer.vgpus;
    return broker_.Ask(found->question);
  }
  const Asked asked = std::move(*found);
  asked_.erase(found);
  const bool is_query = asked.what == ControlKind::kServerQuery;
  TurnAway(asked.client, Status(is_query ? StatusCode::kPermissionDenied : StatusCode::kResourceExhausted,
                                "the ticket for this server's GPU is refused: " + Printable(answer.sentence)));
}

void Supervisor::TendNode() {
  for (const TicketAnswer& answer : node_.Hear()) TakeTicketAnswer(answer);
  if (!node_.Tend()) return;
  for (const Asked& asked : asked_) {
    if (!asked.ticket.empty()) AskNode(asked);
  }
}

}  // namespace tessera
