// The worker process of one session: shakes hands, then loads the driver in the environment the client asked for, then
// serves.
#pragma once

#include "server/daemon/options.h"

namespace tessera {

// Serves the client at descriptor options.worker_fd. Returns the process's exit code; does not return when the session is
// over while calls are still inside the driver (the process ends with _exit, which frees everything at once).
int RunWorkerProcess(const Options& options);

}  // namespace tessera
