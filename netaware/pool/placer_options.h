// Options that several commands of a pool have.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "netaware/pool/pool_options.h"

namespace tessera {

// --placer alone.
void AddPlacerAddress(CLI::App& command, PoolOptions* options);
// --placer, and who shows himself there.
void AddPlacer(CLI::App& command, PoolOptions* options);
// --certificate, --key, --authority alone.
void AddIdentity(CLI::App& command, PoolOptions* options);
// -o text|json|yaml
void AddTextOrData(CLI::App& command, PoolOptions* options);

// Of what a job is told: empty, or what is wrong with it.
std::string CheckReason(const std::string& reason);

}  // namespace tessera
