// What `tessera describe` does, by a placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// As PoolCommand().
int DescribeCommand(const PoolOptions& options);

}  // namespace tessera
