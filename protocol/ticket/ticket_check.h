// Whether a server takes a ticket whose signature is good. Pure; any thread.
//
// A ticket serves any number of a holder's processes until it expires. What the server's ledger says of its grant counts more
// than the ticket's time: after the grant was released the ticket serves nobody; while the ledger has the grant an expired one
// still does, so that a running job can start processes while the placer is away.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/ticket/ticket.h"

namespace tessera {

// What a server knows of itself and of a ticket's grant.
struct TicketScene {
  enum class Grant { kUnknown, kHeld, kReleased };

  std::string_view cluster;
  std::string_view server;        // its host id
  std::string_view holder;        // what the client has proved to be
  int64_t now_ms = 0;             // by the placer's clock
  uint64_t newest_epoch = 0;      // of a placer that the server has seen
  Grant grant = Grant::kUnknown;  // in the server's ledger
};

// A ticket may be so much younger than the server's idea of the placer's clock.
inline constexpr int64_t kTicketEarlyMs = 5'000;

// kPermissionDenied: the sentence says which of all this does not agree.
Status CheckTicket(const Ticket& ticket, const TicketScene& scene);

}  // namespace tessera
