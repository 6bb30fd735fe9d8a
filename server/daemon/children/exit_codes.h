// The exit codes of tesserad. README.md of this directory documents them for users.
#pragma once

#include "programs/service_options.h"

namespace tessera {

// Besides those of programs/service_options.h.
enum ExitCode : int {
  kExitNoDevice = 3,   // no driver could be loaded, it has no device, or --sandbox=require and it does not work
  kExitNoSandbox = 5,  // --sandbox=require, and this machine cannot do all of it
  // Of worker processes; only the daemon sees them:
  kExitHandshakeFailed = 10,  // the client sent nothing, something else, or speaks another version
  kExitSessionFailed = 11,    // the session ended with an error after it had begun
  kExitClientGone = 12,       // the client's process ended without closing the session
};

}  // namespace tessera
