// The worker process of one session: loads the driver in the environment that its client asks for, or the last one asked for,
// waits for the client when there is none yet, and serves it.
#pragma once

#include "server/daemon/options.h"

namespace tessera {

// Serves the client that comes over the socket options.worker_fd (handover.h). Returns the process's exit code; does not return
// when the session is over while calls are still inside the driver (the process ends with _exit, which frees everything at once).
int RunWorkerProcess(const Options& options);

}  // namespace tessera
