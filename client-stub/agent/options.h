// The command line of tessera-agent.
#pragma once

#include <string>

#include "protocol/cli/service_options.h"
#include "protocol/link/tcp_address.h"

namespace tessera {

struct AgentOptions : ServiceOptions {
  std::string listen_path;  // of --listen unix:PATH
  TcpAddress gateway;       // of --server tcp://HOST:PORT
  bool insecure = false;
};

// As ServiceCommandLine::Parse().
int ParseAgentOptions(int argc, char** argv, AgentOptions* options);

}  // namespace tessera
