// The gateway that a daemon starts for --listen tcp://HOST:PORT (server/gateway): a child of its own, so that nothing here has
// to do with a network.
#pragma once

#include <sys/types.h>

#include <string>

#include "protocol/base/child_logs.h"
#include "protocol/base/status.h"
#include "server/daemon/options.h"

namespace tessera {

struct GatewayProcess {
  pid_t pid = -1;
  std::string url;  // with the port that was chosen when it was 0
  std::string who;  // a sentence for the user, when whoever connects there need prove nothing

  // Starts tessera-gateway, which lies beside this program, at `address`, and waits until it listens. It ends with the calling
  // thread. kUnavailable when it ended instead: it has said why in the log. kTimedOut: it did neither (Options::ready_timeout_s;
  // a name server may have to be asked). kVersionMismatch: it is of another release.
  static Result<GatewayProcess> Start(const std::string& address, const Options& options, ChildLogs& logs);
};

}  // namespace tessera
