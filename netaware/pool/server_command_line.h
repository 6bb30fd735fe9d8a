// The commands `cordon`, `uncordon`, `drain` and `remove`, as AddPoolCommands() has them.
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// `options` is filled in when one of them is parsed, and outlives `app`.
void AddServerCommands(CLI::App& app, PoolOptions* options);

}  // namespace tessera
