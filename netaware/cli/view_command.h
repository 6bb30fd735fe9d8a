// `tessera status` and `tessera top`, for a server or for a pool.
#pragma once

#include <string>

#include "netaware/pool/pool_options.h"
#include "protocol/link/link_options.h"

namespace tessera {

struct ViewOptions {
  std::string server;  // from --server; empty: TESSERA_SERVER, else a pool, else a default one
  LinkOptions link;    // for the agent of a server on another host
};

// Shows the server, or becomes tessera-admin with the words of `argv`, which shows the pool. It is a pool with --placer, or if
// no server is named and there is a placer (FindPlacer, config.toml). Returns as StatusCommand() and TopCommand(); kExitUsage
// for options that exclude each other.
int ViewCommand(const ViewOptions& options, const PoolOptions& pool, char** argv);

}  // namespace tessera
