// Options that several commands of a pool share.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "netaware/pool/pool_options.h"

namespace tessera {

// --placer alone.
void AddPlacerAddress(CLI::App& command, PoolOptions* options);
// --placer, and the options of AddIdentity().
void AddPlacer(CLI::App& command, PoolOptions* options);
// --certificate, --key, --authority alone.
void AddIdentity(CLI::App& command, PoolOptions* options);
// -o text|json|yaml
void AddTextOrData(CLI::App& command, PoolOptions* options);

// Checks the reason that a job receives. Returns the error; empty: none.
std::string CheckReason(const std::string& reason);

}  // namespace tessera
