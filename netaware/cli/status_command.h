// `tessera status`: what a server is, what it serves and how busy it is.
#pragma once

#include <string>

#include "protocol/link/link_options.h"

namespace tessera {

struct StatusOptions {
  std::string server;           // empty: TESSERA_SERVER
  LinkOptions link;             // of an agent for a server on another host
  std::string output = "text";  // or "json"
};

// Prints on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr.
int StatusCommand(const StatusOptions& options);

}  // namespace tessera
