// `tessera sessions`: ends a session of a server, for who began it and for the server's administrators.
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
  std::string session;   // its number, as `tessera status` and `tessera top` show it
  int64_t grace_ms = 0;  // of --grace
  std::string server;    // empty: TESSERA_SERVER, else the one that is found (found_server.h)
  LinkOptions link;      // of an agent for a server on another host
};

// Without the options that name a server.
CLI::App* AddSessionsCommand(CLI::App& app, SessionsOptions* options);

// Prints on stdout what happens. Returns kExitOk, or a CliExitCode with one sentence on stderr; kExitRefused: there is no such
// session for this user, or it has ended.
int SessionsCommand(const SessionsOptions& options);

}  // namespace tessera
