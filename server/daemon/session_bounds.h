// What the options of a server leave to its sessions, all together and beside one another (server/holders/fair_bound.h).
#pragma once

#include <cstddef>

#include "server/daemon/options.h"
#include "server/holders/fair_bound.h"

namespace tessera {

// How many there may be. Where others than the server's own user may come one of eight is kept for holders that come later.
FairBound::Limits SessionLimits(const Options& options);
// How many shares are kept for them: the first that comes may have half.
size_t SharesReserve(const Options& options);
// Bytes of the machine's memory. A quarter is kept for them; the first piece that a session asks for everybody has.
FairBound::Limits HostMemoryLimits(const Options& options);

}  // namespace tessera
