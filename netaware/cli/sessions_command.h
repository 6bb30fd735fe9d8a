// `tessera sessions`: ends a session of a server. The session's user and the server's administrators may do that.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/link/link_options.h"

namespace CLI {
class App;
}

namespace tessera {

struct SessionsOptions {
  std::string action;    // end
  std::string session;   // its number in `tessera status` and `tessera top`
  int64_t grace_ms = 0;  // from --grace
  std::string server;    // empty: TESSERA_SERVER, else the one that is found (found_server.h)
  LinkOptions link;      // for the agent of a server on another host
};

// Adds the command without the options that name a server.
CLI::App* AddSessionsCommand(CLI::App& app, SessionsOptions* options);

// Prints the result on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr; kExitRefused: there is no such
// session for this user, or it has ended.
int SessionsCommand(const SessionsOptions& options);

}  // namespace tessera
