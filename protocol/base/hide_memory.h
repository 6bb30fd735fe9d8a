// What a process holds that is nobody else's business: keys, what sessions say.
#pragma once

#include "protocol/base/status.h"

namespace tessera {

// Others of the same user may neither trace this process nor read its memory, and it leaves no core file behind. Until it
// executes a program: that one has to ask again.
Status HideMemory();

}  // namespace tessera
