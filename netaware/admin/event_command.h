// `tessera events` and `tessera audit` at a placer. The main thread's.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Prints what happened, and with --watch what happens, until it is ended; a placer that goes is waited for. The exit code; a
// sentence on stderr when it is not 0.
int EventCommand(const PoolOptions& options);

}  // namespace tessera
