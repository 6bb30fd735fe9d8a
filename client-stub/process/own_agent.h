// An agent that the library starts itself, where TESSERA_SERVER names another host and nobody has started one: a program in a
// container needs the variable and the library, no `tessera run`.
//
// All processes of a program that show the same keys share it: it is found by the outermost of their ancestors that has the same
// TESSERA_SERVER in its environment, and ends with that one. The program sees nothing of it: it is no child of the program's, no
// signal tells of it, and it has none of the program's descriptors.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "client-stub/process/config.h"
#include "protocol/base/status.h"

namespace tessera {

// Gives each server of another host in `list` the socket of its agent, which is started where there is none. kNotFound: no
// tessera-agent beside this library; kUnavailable: it did not start. Waits up to ten seconds. Any thread, also several processes
// at once.
Status ReachOtherHosts(ServerList* list);

// The outermost of `pid` and its ancestors in whose environment `variable` ("NAME=value") stands, without a gap between them;
// `pid` itself where it does not stand in its own. For tests.
pid_t OutermostWith(pid_t pid, std::string_view variable);

}  // namespace tessera
