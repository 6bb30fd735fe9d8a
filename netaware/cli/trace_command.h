// `tessera trace`.
#pragma once

#include "netaware/trace/trace_options.h"

namespace tessera {

// Says where the time of a traced process went. kExitOk; kExitFile: the file cannot be read, or is no whole trace;
// kExitOtherVersion: it is one of another release. Then one sentence is on stderr.
int TraceCommand(const TraceOptions& options);

}  // namespace tessera
