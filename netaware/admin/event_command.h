// `tessera events` and `tessera audit`, carried out with a placer. Main thread.
#pragma once

#include "netaware/pool/pool_options.h"

namespace tessera {

// Prints past events. With --watch it also prints new ones until it is ended, and waits for a placer that has gone away.
// Returns the exit code; if it is not 0, stderr has one sentence.
int EventCommand(const PoolOptions& options);

}  // namespace tessera
