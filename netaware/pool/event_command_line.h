// The command lines of `tessera events` and `tessera audit`, for AddPoolCommands().
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

void AddEventCommands(CLI::App& app, PoolOptions* options);

}  // namespace tessera
