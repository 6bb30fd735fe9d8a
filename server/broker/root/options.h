// The command line of tessera-broker.
#pragma once

#include <string>
#include <vector>

#include "programs/service_options.h"
#include "server/broker/broker.h"
#include "server/sandbox/sandbox.h"

namespace tessera {

struct ProgramOptions : ServiceOptions {
  BrokerOptions broker;
  int line_fd = -1;    // the socket to the daemon
  int parent_pid = 0;  // it ends with this process
  SandboxMode sandbox = SandboxMode::kOff;
  bool machine_root = false;  // no private root
  int control_fd = -1;        // where the control API listens for users of this host; -1: nowhere
  int names_fd = -1;          // where the daemon says who they are (server/daemon/caller_names.h); -1: nowhere
  int control_tls_fd = -1;    // where it does for whoever comes by TLS; -1: nowhere
  int metrics_fd = -1;        // where whoever asks for metrics connects; -1: nobody may
  int usage_line_fd = -1;     // to the keeper of usage records; -1: there are none
  // Of the process that keeps usage records, which decides nothing.
  int usage_fd = -1;  // the other end of that; -1: this is a broker
  int opened_fd = -1;
  std::string usage_directory{};
  uint32_t usage_days = 7;
  uint64_t restarts = 0;  // of brokers before this one
};

// As ServiceCommandLine::Parse().
int ParseProgramOptions(int argc, char** argv, ProgramOptions* options);

}  // namespace tessera
