#include "protocol/ticket/ticket_check.h"

#include <fmt/core.h>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

Status Refused(std::string why) { return Status(StatusCode::kPermissionDenied, std::move(why)); }

double Seconds(int64_t ms) { return static_cast<double>(ms) / 1e3; }

}  // namespace

Status CheckTicket(const Ticket& ticket, const TicketScene& scene) {
  if (ticket.cluster != scene.cluster) {
    return Refused(
        fmt::format("the ticket is of the cluster '{}', and this server is of '{}'", ticket.cluster, Printable(scene.cluster)));
  }
  if (ticket.server != scene.server) {
    return Refused(fmt::format("the ticket is for the server '{}', and this is '{}'", ticket.server, Printable(scene.server)));
  }
  if (ticket.holder != scene.holder) {
    return Refused(fmt::format("the ticket is {}'s, and this client is {}", Printable(ticket.holder), Printable(scene.holder)));
  }
  if (scene.grant == TicketScene::Grant::kReleased) return Refused("the ticket's grant was released: ask the placer for another");
  if (scene.now_ms < ticket.issued_ms - kTicketEarlyMs) {
    return Refused(fmt::format("the ticket was made {:.1f} s from now by the placer's clock: look at the clocks (tessera doctor)",
                               Seconds(ticket.issued_ms - scene.now_ms)));
  }
  if (scene.grant == TicketScene::Grant::kHeld) return Status::Ok();
  if (scene.now_ms >= ticket.expires_ms) {
    return Refused(
        fmt::format("the ticket expired {:.1f} s ago, and this server has no grant of it any more: ask the placer for another",
                    Seconds(scene.now_ms - ticket.expires_ms)));
  }
  if (ticket.epoch < scene.newest_epoch) {
    return Refused(fmt::format("the ticket is of epoch {} of the placer, this server has seen {}, and has no grant of it",
                               ticket.epoch, scene.newest_epoch));
  }
  return Status::Ok();
}

}  // namespace tessera
