// The command line of tessera-broker.
#pragma once

#include <string>
#include <vector>

#include "programs/service_options.h"
#include "server/broker/broker.h"

namespace tessera {

struct ProgramOptions : ServiceOptions {
  BrokerOptions broker;
  int line_fd = -1;    // the socket to the daemon
  int parent_pid = 0;  // it ends with this process
};

// As ServiceCommandLine::Parse().
int ParseProgramOptions(int argc, char** argv, ProgramOptions* options);

}  // namespace tessera
