// Whether a server can be used, asked before the program is started, so that the answer is an exit code and a sentence.
#pragma once

#include <string>

#include "netaware/cli/exit_codes.h"

namespace tessera {

struct ServerProblem {
  int exit_code = kExitOk;
  std::string sentence;  // what happened, to what, what to do next
};

// Checks the form of `url` and that somebody listens there. It opens no session.
ServerProblem CheckServer(const std::string& url);

}  // namespace tessera
