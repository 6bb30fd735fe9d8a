// The command line of `tessera vgpu`. Two programs read it: tessera, which becomes tessera-admin, and tessera-admin, which
// carries out the command. So both have the same help, errors and completion.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "netaware/vgpu/vgpu_options.h"

namespace tessera {

// Adds the command `vgpu` to `app`. The parse fills in `options`.
CLI::App* AddVgpuCommand(CLI::App& app, VgpuOptions* options);

// Returns the error of parsed options, in the style of CLI11's sentences; empty: none.
std::string CheckVgpuOptions(const VgpuOptions& options);

}  // namespace tessera
