// What a new session gets from the folders above it.
#pragma once

namespace tessera {

class Session;

// Its memory, and what hears of its contexts that end and of its host functions. Once for each session, before its first call.
void AttachSession(Session& session);

}  // namespace tessera
