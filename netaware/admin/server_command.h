// What `tessera cordon`, `uncordon` and `drain` do, by a placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// As PoolCommand().
int ServerCommand(const PoolOptions& options);

}  // namespace tessera
