// The way from programs of this host to a server: its own socket, or an agent that is started for the job.
#pragma once

#include <string>

#include "netaware/cli/server_check.h"
#include "protocol/link/link_options.h"

namespace tessera {

// Fills in `*address` for a server at `url`. unix:PATH stays as it is. For a network address it starts an agent, which serves
// until the calling process ends. It does not check that a server answers: CheckServer() does. A problem if the address has
// another form (kExitUnknownScheme), or if the agent cannot be started. `link`: the options of tessera-agent.
ServerProblem ReachServer(const std::string& url, const LinkOptions& link, ServerUrls* address);

}  // namespace tessera
