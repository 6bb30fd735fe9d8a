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

// Prints on stdout what those say that answer. Returns kExitOk, or the CliExitCode of the first that does not, with a sentence
// for each on stderr.
int StatusCommand(const StatusOptions& options);

}  // namespace tessera
