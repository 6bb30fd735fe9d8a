// `tessera cordon`, `uncordon`, `drain` and `remove`, carried out with a placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Returns as PoolCommand().
int ServerCommand(const PoolOptions& options);

}  // namespace tessera
