// `tessera status` and `tessera top` for a pool.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Returns as PoolCommand(). With --watch, and for top without --count on a terminal, it runs until it is ended; the placer may
// be away meanwhile.
int StatusCommand(const PoolOptions& options);

}  // namespace tessera
