// The command `place`, as AddPoolCommands() has it.
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// `options` is filled in when it is parsed, and outlives `app`.
void AddPlaceCommand(CLI::App& app, PoolOptions* options);

}  // namespace tessera
