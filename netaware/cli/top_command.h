// `tessera top`: the sessions of servers, again and again.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/link/link_options.h"

namespace tessera {

struct TopOptions {
  std::string server;           // empty: TESSERA_SERVER
  LinkOptions link;             // of an agent for a server on another host
  std::string output = "text";  // or "json": an object and a newline each time
  double interval_s = 1;
  uint32_t count = 0;            // 0: until it is ended on a terminal, else once
  std::string sort = "session";  // as TopOrderOf() takes it
};

// On a terminal q ends it, and s, m, l and a choose what comes first.
// Prints on stdout. Returns kExitOk, or a CliExitCode with one sentence on stderr; a server that ends meanwhile is such a one.
int TopCommand(const TopOptions& options);

}  // namespace tessera
