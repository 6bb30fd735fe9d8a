// Whether a server takes a ticket whose signature is good. Pure; any thread.
//
// A ticket serves any number of a holder's processes until it expires. The server's ledger counts more than the ticket's time.
// Once the grant is released the ticket serves nobody. While the ledger has the grant an expired ticket is still good, so that a
// running job can start processes while the placer is away.
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
  std::string_view holder;        // who the client has proved to be
  int64_t now_ms = 0;             // by the placer's clock
  uint64_t newest_epoch = 0;      // the newest epoch of a placer that the server has seen
  Grant grant = Grant::kUnknown;  // in the server's ledger
};

// How far a ticket's time of issue may lie in the future, by the server's idea of the placer's clock.
inline constexpr int64_t kTicketEarlyMs = 5'000;

// kPermissionDenied: the sentence says what does not agree.
Status CheckTicket(const Ticket& ticket, const TicketScene& scene);

}  // namespace tessera
