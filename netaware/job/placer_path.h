// The address of a job's placer.
#pragma once

#include <string>

namespace tessera {

// Returns the placer's address: `said` (--placer), else TESSERA_PLACER, else this user's own placer (UserSocketPath) if it
// listens; empty: there is none. A given address may be abbreviated (AddressMeantBy), and is not checked further. Any thread,
// while no other thread changes the environment.
std::string FindPlacer(const std::string& said);
// The end of a sentence that explains how an abbreviated address was understood (TakenAs).
std::string HowPlacerIsTaken(const std::string& said);

}  // namespace tessera
