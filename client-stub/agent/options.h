// The command line of tessera-agent.
#pragma once

#include <string>

#include "protocol/base/log.h"
#include "protocol/link/tcp_address.h"

namespace tessera {

// How tessera-agent ends. Documented for users in README.md of this directory.
enum AgentExitCode : int {
  kAgentOk = 0,
  kAgentInternal = 1,      // a system call failed that should not
  kAgentUsage = 2,         // the command line was not understood
  kAgentCannotListen = 4,  // the socket could not be bound
};

struct AgentOptions {
  std::string listen_path;  // of --listen unix:PATH
  TcpAddress gateway;       // of --server tcp://HOST:PORT
  bool insecure = false;
  LogLevel log_level = LogLevel::kWarning;

  // Of an agent that `tessera` starts for one job (netaware/cli/companion.h); not for users.
  int owner_fd = -1;              // readable once the process that the agent is for has ended; so does the agent
  bool remove_directory = false;  // at the end, remove the directory of the socket, which was made for this agent
};

// Reads argv. Returns -1 when the program is to run, else the exit code (0 after --help and --version, whose text went to
// stdout; kAgentUsage after an error, whose sentence went to stderr).
int ParseAgentOptions(int argc, char** argv, AgentOptions* options);

}  // namespace tessera
