// The command line of `tessera trace`.
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/trace/trace_options.h"

namespace tessera {

// Adds the command `trace` to `app`. The parse fills in `options`.
CLI::App* AddTraceCommand(CLI::App& app, TraceOptions* options);

}  // namespace tessera
