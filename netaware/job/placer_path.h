// Where a placer is: as users say it, and where one listens that nobody has told where.
#pragma once

#include <string>

namespace tessera {

// The socket of this user's own placer: /run/tessera/placer.sock of root's, else $XDG_RUNTIME_DIR/tessera-placer.sock; empty
// where this user has no such directory. Any thread.
std::string UserPlacerPath();

// The address of a placer for whoever asks one: `said` (--placer), else TESSERA_PLACER, else this user's own where one listens;
// empty: there is none. What was said is not looked at. Any thread that no other changes the environment beside.
std::string FindPlacer(const std::string& said);

}  // namespace tessera
