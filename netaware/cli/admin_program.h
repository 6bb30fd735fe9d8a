// tessera-admin carries out the commands of tessera that call a server's control API or a placer. It lies beside tessera; of
// the two only tessera-admin links gRPC.
#pragma once

#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Replaces this process by tessera-admin, with the arguments of `argv`. If that fails, returns kExitMissingLibrary with a
// sentence on stderr.
int BecomeAdminProgram(char** argv);

// Starts tessera-admin with these words, and returns its output on stdout and stderr, 1 MiB at most. After 15 s it is killed.
// kNotFound: it cannot be started.
Result<std::string> OutputOfAdminProgram(const std::vector<std::string>& words);

}  // namespace tessera
