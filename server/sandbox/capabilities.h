// What a process may do because of its capabilities. Source: capabilities(7).
#pragma once

#include "protocol/base/status.h"

namespace tessera {

// Whether the calling thread has it now, in its user namespace; CAP_SYS_ADMIN and the like.
bool HasCapability(int capability);

// All of them, of the calling thread and those it will start, and for good where it has no_new_privs.
Status GiveUpCapabilities();

}  // namespace tessera
