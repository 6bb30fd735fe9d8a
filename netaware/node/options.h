// The command line of tessera-node.
#pragma once

#include <string>
#include <vector>

#include "programs/service_options.h"
#include "protocol/link/link_options.h"
#include "server/sandbox/sandbox.h"

namespace tessera {

struct NodeOptions : ServiceOptions {
  std::string placer;                  // unix:PATH or tls://HOST:PORT
  std::string server_path;             // of --server unix:PATH; empty: this host has no server
  std::string control;                 // unix:PATH; empty likewise
  std::vector<std::string> addresses;  // at which clients reach the server
  std::string state;                   // path of the ledger
  std::string host_id;
  std::string host;  // HostDigest()
  KeyFiles keys;     // where they are was found out
  SandboxMode sandbox = SandboxMode::kAuto;
  bool private_root = true;

  int daemon_fd = -1;  // of a node that tesserad starts; not for users
};

// As ServiceCommandLine::Parse().
int ParseNodeOptions(int argc, char** argv, NodeOptions* options);

}  // namespace tessera
