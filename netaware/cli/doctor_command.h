// `tessera doctor`: looks for problems that keep programs from using a GPU, and prints advice.
#pragma once

#include <string>

#include "protocol/link/link_options.h"

namespace tessera {

struct DoctorOptions {
  std::string server;           // empty: TESSERA_SERVER, else the default server, else a private server is tried
  LinkOptions link;             // for the agent of a server on another host
  std::string program;          // also checked, if not empty
  std::string output = "text";  // or "json"
};

// Prints its findings on stdout. `placer`: the address from --placer; empty: the one that jobs use, or no checks of a pool if
// there is none. Returns 0 without a problem, else 1. It changes nothing; a private server that it starts ends with this
// process.
int DoctorCommand(const DoctorOptions& options, const std::string& placer);

}  // namespace tessera
