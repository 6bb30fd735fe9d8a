// The command line of `tessera trace`.
#pragma once

#include <CLI/CLI.hpp>

#include "netaware/trace/trace_options.h"

namespace tessera {

// The command `trace` of `app`. `options` is filled in when it is parsed.
CLI::App* AddTraceCommand(CLI::App& app, TraceOptions* options);

}  // namespace tessera
