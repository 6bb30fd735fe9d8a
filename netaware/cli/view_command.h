// `tessera status` and `tessera top`: of a server, or of a pool.
#pragma once

#include <string>

#include "netaware/pool/pool_options.h"
#include "protocol/link/link_options.h"

namespace tessera {

struct ViewOptions {
  std::string server;  // of --server; empty: TESSERA_SERVER, else a pool, else one that is found
  LinkOptions link;    // of an agent for a server on another host
};

// Shows the server, or becomes tessera-admin with the words of `argv`, which shows the pool. A pool it is with --placer, and
// where no server is named and there is a placer (FindPlacer, config.toml). Returns as StatusCommand() and TopCommand();
// kExitUsage for what does not go together.
int ViewCommand(const ViewOptions& options, const PoolOptions& pool, char** argv);

}  // namespace tessera
