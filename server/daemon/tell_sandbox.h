// What `tesserad --check-sandbox` says.
#pragma once

#include "server/daemon/options.h"

namespace tessera {

// On stdout, for people and for `tessera doctor`: a line of what the sandbox of workers is on this machine, then one of each
// thing that is missing. Returns the exit code.
int TellWorkerSandbox(const Options& options);

}  // namespace tessera
