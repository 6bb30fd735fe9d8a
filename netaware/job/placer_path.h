// Where a placer listens that nobody has told where.
#pragma once

#include <string>

namespace tessera {

// The socket of this user's own placer: /run/tessera/placer.sock of root's, else $XDG_RUNTIME_DIR/tessera-placer.sock; empty
// where this user has no such directory. Any thread.
std::string UserPlacerPath();

}  // namespace tessera
