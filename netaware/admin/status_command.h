// What `tessera status` and `tessera top` do, of a pool.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// As PoolCommand(). With --watch, and by top without --count on a terminal, until it is ended: the placer may be away meanwhile.
int StatusCommand(const PoolOptions& options);

}  // namespace tessera
