// How programs of this host get to a server: at its own socket, or through an agent that is started for the job.
#pragma once

#include <string>

#include "netaware/cli/server_check.h"
#include "protocol/link/link_options.h"

namespace tessera {

// Fills in `*address` for a server at `url`: unix:PATH as it is; for one of a network an agent is started, which serves until
// the calling process ends. Whether anybody answers there is CheckServer()'s question. A problem when the address has another
// form (kExitUnknownScheme), or the agent cannot be started. `link`: as of tessera-agent.
ServerProblem ReachServer(const std::string& url, const LinkOptions& link, ServerUrls* address);

}  // namespace tessera
