// The commands `cordon`, `uncordon`, `drain` and `remove`, for AddPoolCommands().
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// The parse of one of them fills in `options`, which has to outlive `app`.
void AddServerCommands(CLI::App& app, PoolOptions* options);

}  // namespace tessera
