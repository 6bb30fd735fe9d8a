// Joins a new session to the rooms above client-stub/session.
#pragma once

namespace tessera {

class Session;

// Gives the session its memory objects (ClientMemory, ManagedMemory). Registers what has to hear of its contexts' ends, and who
// runs its host functions. Has its worker trace where the process is traced. Call it once for each session, before the session's
// first call.
void AttachSession(Session& session);

}  // namespace tessera
