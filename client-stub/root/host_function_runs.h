// Runs a host function (streams/host_functions.h) once its stream has reached it.
#pragma once

namespace tessera {

class Session;

// Handles the session's kHostFunction and kHostFunctionReleased notices from now on. A request with number 0 gets no answer: it
// is for a destructor, and no stream waits for that.
void RunHostFunctionsOf(Session& session);

}  // namespace tessera
