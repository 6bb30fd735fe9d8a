// The command line of tessera-gateway.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/base/log.h"
#include "protocol/link/tcp_address.h"

namespace tessera {

// How tessera-gateway ends. Documented for users in README.md of this directory.
enum GatewayExitCode : int {
  kGatewayOk = 0,
  kGatewayInternal = 1,      // a system call failed that should not
  kGatewayUsage = 2,         // the command line was not understood
  kGatewayCannotListen = 4,  // the address could not be bound, or is refused without --insecure
};

struct GatewayOptions {
  TcpAddress listen;        // of --listen tcp://HOST:PORT
  std::string server_path;  // of --server unix:PATH
  bool insecure = false;
  LogLevel log_level = LogLevel::kWarning;
  uint32_t sessions_max = 256;

  // Of a gateway that tesserad starts (server/daemon/gateway_process.h); not for users.
  int parent_pid = 0;  // it ends with this process
  int ready_fd = -1;   // where its address goes when agents may connect, instead of the line on stdout
};

// Reads argv. Returns -1 when the program is to run, else the exit code (0 after --help and --version, whose text went to
// stdout; kGatewayUsage after an error, whose sentence went to stderr).
int ParseGatewayOptions(int argc, char** argv, GatewayOptions* options);

}  // namespace tessera
