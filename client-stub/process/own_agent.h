// Starts an agent when TESSERA_SERVER names another host and nobody has started one. So a program in a container needs only the
// variable and the library, no `tessera run`.
//
// All processes of a program with the same keys share the agent. It belongs to their outermost ancestor with the same
// TESSERA_SERVER in its environment, and ends with that process. The program does not notice it: the agent is not its child,
// sends no signal, and has none of its descriptors.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "client-stub/process/config.h"
#include "protocol/base/status.h"

namespace tessera {

// Gives each server of another host in `list` the socket of its agent, and starts the agent if there is none. Waits up to ten
// seconds. Any thread, also in several processes at once. kNotFound: there is no tessera-agent beside this library. kUnavailable:
// it did not start.
Status ReachOtherHosts(ServerList* list);

// The outermost process of the chain from `pid` upwards in which every environment has `variable` ("NAME=value"); `pid` itself if
// its own does not. For tests.
pid_t OutermostWith(pid_t pid, std::string_view variable);

}  // namespace tessera
