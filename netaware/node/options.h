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
  std::string server_path;             // the path in --server unix:PATH; empty: this host has no server
  std::string control;                 // unix:PATH; empty: this host has no server
  std::vector<std::string> addresses;  // the addresses at which clients reach the server
  std::string state;                   // path of the ledger
  std::string host_id;
  std::string host;  // HostDigest()
  KeyFiles keys;     // with the default paths filled in
  SandboxMode sandbox = SandboxMode::kAuto;
  bool private_root = true;

  int daemon_fd = -1;  // the socket to tesserad, which passes this option; not for users; -1: none
};

// Returns what ServiceCommandLine::Parse() returns.
int ParseNodeOptions(int argc, char** argv, NodeOptions* options);

}  // namespace tessera
