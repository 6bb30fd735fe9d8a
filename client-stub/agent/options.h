// The command line of tessera-agent.
#pragma once

#include <optional>
#include <string>

#include "programs/service_options.h"
#include "protocol/link/impaired/impaired_link.h"
#include "protocol/link/link_address.h"
#include "protocol/link/link_options.h"
#include "server/sandbox/sandbox.h"

namespace tessera {

struct AgentOptions : ServiceOptions {
  std::string listen_path;  // of --listen unix:PATH
  LinkAddress gateway;      // of --server SCHEME://HOST:PORT
  LinkOptions link;
  std::optional<Impairment> impairment;      // of --impair
  SandboxMode sandbox = SandboxMode::kAuto;  // of the process that carries sessions
};

// Parses the command line into `*options`. The result is that of ServiceCommandLine::Parse(): -1 to go on, else the exit code of
// the program.
int ParseAgentOptions(int argc, char** argv, AgentOptions* options);

}  // namespace tessera
