// `tessera get` and `tessera grants`, carried out with a placer.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Prints on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr; kExitNoPlacer after 5 s at most.
int PoolCommand(const PoolOptions& options);

}  // namespace tessera
