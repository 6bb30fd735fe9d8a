// What `tessera place` does, by a placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// As PoolCommand(); kExitLate: the job would wait; kExitRefused: it never fits.
int PlaceCommand(const PoolOptions& options);

}  // namespace tessera
