// `tessera top`: shows the sessions of servers repeatedly.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/link/link_options.h"

namespace tessera {

struct TopOptions {
  std::string server;           // empty: TESSERA_SERVER
  LinkOptions link;             // for the agent of a server on another host
  std::string output = "text";  // or "json": an object and a newline each time
  double interval_s = 1;
  uint32_t count = 0;            // the number of outputs; 0: endless on a terminal, else one
  std::string sort = "session";  // a name for TopOrderOf()
};

// On a terminal the key q ends it, and s, m, l and a choose the sort order. Prints on stdout. Returns kExitOk, or a CliExitCode
// with one sentence on stderr; the end of a server is such an error.
int TopCommand(const TopOptions& options);

}  // namespace tessera
