// `tessera doctor`: looks for what keeps programs from using a GPU, and says how to repair it.
#pragma once

#include <string>

#include "protocol/link/link_options.h"

namespace tessera {

struct DoctorOptions {
  std::string server;           // empty: TESSERA_SERVER, else one that is found, else a private server is tried out
  LinkOptions link;             // of an agent for a server on another host
  std::string program;          // also looked at, when not empty
  std::string output = "text";  // or "json"
};

// Prints its findings on stdout. `placer`: of --placer; empty: as jobs find one, and nothing of a pool where there is none.
// Returns 0 without a problem, else 1. It changes nothing; a private server that it starts ends with this process.
int DoctorCommand(const DoctorOptions& options, const std::string& placer);

}  // namespace tessera
