// The command line of a pool's commands, for the two programs that read it: tessera, which becomes tessera-admin, and
// tessera-admin, which does it. So both have the same help, errors and completion.
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// The commands of `app` that ask a placer: get, grants, cordon, uncordon, drain, remove, place, describe, events, audit.
// `options` is filled in when one of them is parsed, and outlives `app`.
void AddPoolCommands(CLI::App& app, PoolOptions* options);

}  // namespace tessera
