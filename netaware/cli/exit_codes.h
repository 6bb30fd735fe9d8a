// The exit codes of `tessera run` if it could not start the program. Otherwise the exit code is the program's (128 + signal if
// a signal ended it). Documented for users in README.md of this directory.
#pragma once

namespace tessera {

enum CliExitCode : int {
  kExitOk = 0,
  kExitInternal = 1,
  kExitUsage = 2,              // the command line was not understood
  kExitUnknownScheme = 71,     // --server or TESSERA_SERVER names a kind of address that does not exist
  kExitUnreachable = 72,       // nothing listens there
  kExitPermission = 73,        // a socket of another user, a refused certificate, plain TCP beyond this host
  kExitOtherVersion = 74,      // the server speaks another version of the protocol, a trace is of another release
  kExitNoDevice = 75,          // the private server found no device
  kExitMissingLibrary = 76,    // a part of Tessera's installation is missing
  kExitServerFailed = 77,      // the private server did not start for another reason
  kExitVgpu = 79,              // no such vGPU for this user, or a server that shares its GPUs with vGPUs alone
  kExitFull = 83,              // the vGPU, or the server, has as many sessions as it may have
  kExitNoPlacer = 80,          // no placer answers at the address
  kExitRefused = 81,           // the pool has no GPU for such a job, or not for this user
  kExitLate = 82,              // no GPU was free in time (--wait)
  kExitKeys = 78,              // files of `tessera keys` exist already, or cannot be used
  kExitFile = 78,              // an input file cannot be used
  kExitNotExecutable = 126,    // as in a shell
  kExitCommandNotFound = 127,  // as in a shell
};

}  // namespace tessera
