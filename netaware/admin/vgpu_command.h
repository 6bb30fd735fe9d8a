// `tessera vgpu`, carried out with the control API.
#pragma once

#include "netaware/vgpu/vgpu_options.h"

namespace tessera {

// Prints on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr.
int VgpuCommand(const VgpuOptions& options);

}  // namespace tessera
