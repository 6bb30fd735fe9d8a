// The end of a context.
#pragma once

#include "server/emulator/driver/core/state.h"

namespace tessera::emulator {

// Ends all work of the context and of its green contexts, and forgets all their objects and memory. Blocks until the streams are
// idle. Any thread.
void DestroyContext(Context& context);

}  // namespace tessera::emulator
