// The command line of tessera-gateway (README.md lists its options).
#pragma once

#include <cstdint>
#include <string>

#include "programs/service_options.h"
#include "protocol/link/link_address.h"
#include "protocol/link/link_options.h"
#include "server/sandbox/sandbox.h"

namespace tessera {

struct GatewayOptions : ServiceOptions {
  LinkAddress listen;       // --listen SCHEME://HOST:PORT
  std::string server_path;  // the path of --server unix:PATH
  LinkOptions link;
  uint32_t sessions_max = 256;
  bool server_counts = false;                // not for users: the server limits the sessions, and further connections wait there
  SandboxMode sandbox = SandboxMode::kAuto;  // for the process that carries sessions
  bool private_root = true;                  // that process sees only those of the machine's files that it may open
  uint32_t resume_grace_s = 30;              // how long a session survives without a link; 0: it ends with its link

  // For a gateway that tesserad starts (server/daemon/gateway_process.h); not for users.
  int parent_pid = 0;  // the gateway ends with this process
  int ready_fd = -1;   // when agents may connect, this gets lines instead of stdout: address, release, who may connect
};

// Reads the command line into `options`. Returns -1, or the exit code with which the program ends now, as
// ServiceCommandLine::Parse() does.
int ParseGatewayOptions(int argc, char** argv, GatewayOptions* options);

}  // namespace tessera
