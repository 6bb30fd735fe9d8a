// Protects what a process holds in memory: keys, and the data of sessions.
#pragma once

#include "protocol/base/status.h"

namespace tessera {

// From now on processes of the same user can neither trace this process nor read its memory, and it leaves no core file. This
// ends with execve(2): the new program has to ask again.
Status HideMemory();

}  // namespace tessera
