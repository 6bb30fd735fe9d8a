// How tesserad ends. Documented for users in README.md of this directory.
#pragma once

namespace tessera {

enum ExitCode : int {
  kExitOk = 0,              // drained after SIGTERM or SIGINT
  kExitInternal = 1,        // a system call failed that should not
  kExitUsage = 2,           // the command line was not understood
  kExitNoDevice = 3,        // no driver could be loaded, or it has no device
  kExitCannotListen = 4,    // the socket could not be bound
  kExitNoSandbox = 5,       // --sandbox=require, and this machine cannot do all of it
  // Of worker processes, seen by the daemon alone:
  kExitHandshakeFailed = 10,  // the client sent nothing, something else, or speaks another version
  kExitSessionFailed = 11,    // the session ended with an error after it had begun
};

}  // namespace tessera
