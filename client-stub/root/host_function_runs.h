// Runs host functions (streams/host_functions.h) when their streams have reached them.
#pragma once

namespace tessera {

class Session;

// Takes over the session's kHostFunction and kHostFunctionReleased notices. A request with number 0 is not answered: nothing
// waits for a destructor.
void RunHostFunctionsOf(Session& session);

}  // namespace tessera
