// `tessera get` at a placer. The main thread's.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Prints servers, GPUs or grants; with --watch again when they change, until it is ended: on a terminal all of them, else those
// that are others than before. The exit code; a sentence on stderr when it is not 0.
int GetCommand(const PoolOptions& options);

}  // namespace tessera
