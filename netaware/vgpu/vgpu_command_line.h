// The command line of `tessera vgpu`, for the two programs that read it: tessera, which becomes tessera-admin, and tessera-admin,
// which does it. So both have the same help, errors and completion.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "netaware/vgpu/vgpu_options.h"

namespace tessera {

// The command `vgpu` of `app`. `options` is filled in when it is parsed.
CLI::App* AddVgpuCommand(CLI::App& app, VgpuOptions* options);

// What is wrong with options that were parsed, as CLI11's sentences are; empty: nothing.
std::string CheckVgpuOptions(const VgpuOptions& options);

}  // namespace tessera
