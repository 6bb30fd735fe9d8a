// The command `describe`, for AddPoolCommands().
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// The parse fills in `options`, which has to outlive `app`.
void AddDescribeCommand(CLI::App& app, PoolOptions* options);

}  // namespace tessera
