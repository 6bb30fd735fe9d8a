// What `tessera cordon`, `uncordon`, `drain` and `remove` do, by a placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// As PoolCommand().
int ServerCommand(const PoolOptions& options);

}  // namespace tessera
