// Makes a link worse, for tests and measurements: delay, a limited rate, stalls, a cut. Frames still arrive once, whole and in
// order, only later; after a cut not at all.
//
// A frame waits for the frames before it, takes as long as its bytes take at the rate, and then the delay. It is handed on within
// some microseconds after that, since the last part of each wait is spun. Users include this header alone: it brings Impairment,
// which says by how much.
#pragma once

#include <memory>

#include "protocol/link/impaired/impairment.h"
#include "protocol/link/link.h"

namespace tessera {

// Impairs what is sent through the result, not what is received: for that impair the other end's link. `link` outlives the
// result. Send() waits while 64 MiB are on their way.
std::unique_ptr<Link> MakeImpairedLink(Link& link, const Impairment& impairment);

// Impairs both directions of a link from one end. What was received waits here until its time has come, up to 64 MiB of it. A cut
// counts only what is sent.
std::unique_ptr<Link> MakeImpairedLink(std::unique_ptr<Link> link, const Impairment& impairment);

}  // namespace tessera
