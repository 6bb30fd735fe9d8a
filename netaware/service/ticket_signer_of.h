// The key with which a placer signs tickets: the one that its store has, so that tickets outlive the placer.
#pragma once

#include "netaware/store/store.h"
#include "protocol/ticket/ticket_keys.h"

namespace tessera {

// Makes one, and keeps it there, where there is none. kInvalidArgument: what is kept is no key; kResourceExhausted: it cannot be
// kept.
Result<TicketSigner> TicketSignerOf(Store& store);

}  // namespace tessera
