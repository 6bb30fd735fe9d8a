// The pool's options of `tessera status` and `tessera top`. tessera adds the options for a server, which it carries out itself;
// tessera-admin adds the caller's certificate (AddIdentity).
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// The parse fills in `options`, which has to outlive `app`.
CLI::App* AddStatusCommand(CLI::App& app, PoolOptions* options);
CLI::App* AddTopCommand(CLI::App& app, PoolOptions* options);

}  // namespace tessera
