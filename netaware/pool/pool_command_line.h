// The command line of a pool's commands. Two programs read it: tessera, which becomes tessera-admin, and tessera-admin, which
// carries out the commands. So both have the same help, errors and completion.
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// Adds the commands that need a placer to `app`: get, grants, cordon, uncordon, drain, remove, place, describe, events, audit.
// The parse of one of them fills in `options`, which has to outlive `app`.
void AddPoolCommands(CLI::App& app, PoolOptions* options);

}  // namespace tessera
