// The command line of tessera-gateway.
#pragma once

#include <cstdint>
#include <string>

#include "programs/service_options.h"
#include "protocol/link/link_address.h"
#include "protocol/link/link_options.h"
#include "server/sandbox/sandbox.h"

namespace tessera {

struct GatewayOptions : ServiceOptions {
  LinkAddress listen;       // of --listen SCHEME://HOST:PORT
  std::string server_path;  // of --server unix:PATH
  LinkOptions link;
  uint32_t sessions_max = 256;
  bool server_counts = false;  // not for users: the server behind it bounds sessions; more connections wait there for their turn
  SandboxMode sandbox = SandboxMode::kAuto;  // of the process that carries sessions
  bool private_root = true;
  uint32_t resume_grace_s = 30;  // how long a session lives without a link; 0: it ends with its link

  // Of a gateway that tesserad starts (server/daemon/gateway_process.h); not for users.
  int parent_pid = 0;  // the gateway ends with this process
  int ready_fd = -1;   // gets lines instead of stdout when agents may connect: address, release, who may connect
};

// As ServiceCommandLine::Parse().
int ParseGatewayOptions(int argc, char** argv, GatewayOptions* options);

}  // namespace tessera
