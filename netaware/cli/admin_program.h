// tessera-admin carries out what of tessera asks a server's control API or a placer. It lies beside tessera and is the only one
// of the two with gRPC.
#pragma once

#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Becomes that program, with the words of `argv` behind the first. Returns kExitMissingLibrary with a sentence on stderr when it
// cannot.
int BecomeAdminProgram(char** argv);

// What it prints when it is started with these words, on stdout and stderr, 1 MiB at most. It has 15 s, and is ended then.
// kNotFound: it cannot be started.
Result<std::string> OutputOfAdminProgram(const std::vector<std::string>& words);

}  // namespace tessera
