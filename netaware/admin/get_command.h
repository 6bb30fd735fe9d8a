// `tessera get`, carried out with a placer. Main thread.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Prints servers, GPUs or grants. With --watch it prints again after each change until it is ended: all of them on a terminal,
// else only the changed ones. Returns the exit code; if it is not 0, stderr has one sentence.
int GetCommand(const PoolOptions& options);

}  // namespace tessera
