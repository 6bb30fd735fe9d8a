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
  Ticket ticket{};  // the grant's when it was granted, or the last one before: it says what it has here; of kReleased the grant
                    // alone

  friend bool operator==(const LedgerGrant&, const LedgerGrant&) = default;
};

}  // namespace tessera
