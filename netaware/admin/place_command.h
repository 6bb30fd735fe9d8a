// `tessera place`, carried out with a placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Returns as PoolCommand(). kExitLate: the job would wait; kExitRefused: the job never fits.
int PlaceCommand(const PoolOptions& options);

}  // namespace tessera
