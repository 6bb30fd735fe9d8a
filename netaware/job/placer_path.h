// Where a placer is that a job asks.
#pragma once

#include <string>

namespace tessera {

// The address of a placer for whoever asks one: `said` (--placer), else TESSERA_PLACER, else this user's own
// (UserSocketPath) where one listens; empty: there is none. What was said is not looked at. Any thread that no other changes the
// environment beside.
std::string FindPlacer(const std::string& said);

}  // namespace tessera
