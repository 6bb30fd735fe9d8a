// `tessera trace`.
#pragma once

#include "netaware/trace/trace_options.h"

namespace tessera {

// Prints the distribution of a traced process' time. kExitOk; kExitFile: the file cannot be read, or is not a complete trace;
// kExitOtherVersion: the trace is of another release. On an error stderr has one sentence.
int TraceCommand(const TraceOptions& options);

}  // namespace tessera
