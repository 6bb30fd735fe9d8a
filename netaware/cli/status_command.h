// `tessera status`: shows a server, its devices and their load.
#pragma once

#include <string>

#include "protocol/link/link_options.h"

namespace tessera {

struct StatusOptions {
  std::string server;           // empty: TESSERA_SERVER
  LinkOptions link;             // for the agent of a server on another host
  std::string output = "text";  // or "json"
};

// Prints the reports of the servers that answer on stdout. Returns kExitOk, or the CliExitCode of the first server that does
// not answer; stderr has a sentence for each of these.
int StatusCommand(const StatusOptions& options);

}  // namespace tessera
