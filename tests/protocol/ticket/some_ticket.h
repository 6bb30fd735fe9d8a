// A ticket with every field set.
#pragma once

#include "protocol/ticket/ticket.h"

namespace tessera {

inline Ticket SomeTicket() {
  Ticket ticket{.cluster = "west",
                .part = 1,
                .server = "gpu7",
                .holder = "name:alice",
                .epoch = 12,
                .renewal = 3,
                .issued_ms = 1'800'000'000'000,
                .expires_ms = 1'800'000'600'000,
                .processes = 4};
  ticket.grant.fill(std::byte{0xab});
  TicketVgpu first{.request = 250'000,
                   .limit = 500'000,
                   .tile_sms = 66,
                   .memory_bytes = uint64_t{20} << 30,
                   .memory = TicketMemory::kSwap,
                   .isolation = TicketIsolation::kPacked,
                   .priority = TicketPriority::kBestEffort,
                   .bandwidth = 1'000'000'000};
  first.gpu.fill(std::byte{1});
  ticket.vgpus = {first, TicketVgpu{}};
  return ticket;
}

}  // namespace tessera
