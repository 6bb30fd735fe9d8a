// A grant that has a part of this server. A plain value.
#pragma once

#include <cstdint>

#include "protocol/ticket/ticket.h"

namespace tessera {

struct LedgerGrant {
  // The numbers are part of the stored form.
  enum class State : uint8_t { kHeld = 0, kGranted = 1, kReleased = 2 };
  State state = State::kHeld;
  int64_t until_ms = 0;  // kHeld: the hold's end; kReleased: the end of its last ticket; else 0
  // The ticket of the last hold, which a confirmation does not change; of kReleased: only its grant.
  Ticket ticket{};
  // kHeld: the grant was released before, and its last ticket from before expires at this time. 0: it was not.
  int64_t released_until_ms = 0;

  friend bool operator==(const LedgerGrant&, const LedgerGrant&) = default;
};

}  // namespace tessera
