// The command lines of `tessera status` and `tessera top`, as far as they are of a pool. tessera adds those of a server, which it
// carries out itself; tessera-admin adds who shows himself at the placer (AddIdentity).
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// `options` is filled in when it is parsed, and outlives `app`.
CLI::App* AddStatusCommand(CLI::App& app, PoolOptions* options);
CLI::App* AddTopCommand(CLI::App& app, PoolOptions* options);

}  // namespace tessera
