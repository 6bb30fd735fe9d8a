// Where a placer is that a job asks.
#pragma once

#include <string>

namespace tessera {

// The address of a placer for whoever asks one: `said` (--placer), else TESSERA_PLACER, else this user's own
// (UserSocketPath) where one listens; empty: there is none. What was said is taken as people type it (AddressMeantBy), and not
// looked at further. Any thread that no other changes the environment beside.
std::string FindPlacer(const std::string& said);
// How what was said was taken (TakenAs), for the end of a sentence about this address.
std::string HowPlacerIsTaken(const std::string& said);

}  // namespace tessera
