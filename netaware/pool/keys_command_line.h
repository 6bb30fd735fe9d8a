// The action of `tessera keys` that needs a placer: `renew`. Both tessera and tessera-admin have it.
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/pool/pool_options.h"

namespace tessera {

// `keys renew`, for tessera-admin. PoolOptions::command is "keys" when it was on the command line.
void AddKeysRenew(CLI::App& app, PoolOptions* options);
// --placer alone.
void AddPlacerOfKeys(CLI::App& command, std::string* placer);

}  // namespace tessera
