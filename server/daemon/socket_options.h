// The options that say who may connect to the daemon's socket.
#pragma once

#include <string>

#include "protocol/base/status.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {

// `group`: of --socket-group, a name or a number; `mode`: of --socket-mode, octal. Empty: not given; a group alone lets the group
// in. kInvalidArgument: there is no such group, or it is no mode with which the server's own user may connect. Asks the host's
// database of groups.
Result<SocketAccess> ParseSocketAccess(const std::string& group, const std::string& mode);

}  // namespace tessera
