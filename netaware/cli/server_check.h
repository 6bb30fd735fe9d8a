// Whether a server can be used, asked before the program is started, so that the answer is an exit code and a sentence.
#pragma once

#include <string>

#include "netaware/cli/exit_codes.h"
#include "protocol/wire/server_query.h"

namespace tessera {

struct ServerProblem {
  int exit_code = kExitOk;
  std::string sentence;  // what happened, to what, what to do next
};

// Asks the server at `url` what it is and fills in `*report`, with readings of its devices when `readings` is true. A
// problem when the address has another form than unix:PATH, when nobody answers there, or somebody of another version
// (then version and hash of the report are filled in). Opens no session.
ServerProblem CheckServer(const std::string& url, bool readings, ServerReport* report);

}  // namespace tessera
