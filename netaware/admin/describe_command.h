// `tessera describe`, carried out with a placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Returns as PoolCommand().
int DescribeCommand(const PoolOptions& options);

}  // namespace tessera
