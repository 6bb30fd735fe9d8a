// `tessera status`: what a server is, what it serves and how busy it is.
#pragma once

#include <string>

namespace tessera {

struct StatusOptions {
  std::string server;           // empty: TESSERA_SERVER
  bool insecure = false;         // of an agent for a server at tcp://
  std::string output = "text";  // or "json"
};

// Prints on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr.
int StatusCommand(const StatusOptions& options);

}  // namespace tessera
