// `tessera where`: which installation this is.
#pragma once

namespace tessera {

// Prints the folder that programs find the client library in. Returns kExitOk, or a CliExitCode with one sentence on stderr.
int WhereCommand();

}  // namespace tessera
