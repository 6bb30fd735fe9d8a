// A link that is worse than the one behind it, for tests and measurements: delay, a limited rate, stalls. Frames still arrive
// once, whole and in order; only later, or, when it is to be cut, not at all.
//
// A frame takes the time on the wire that its bytes take at the rate, behind those before it, and then the delay. It is
// handed on not before that, and as a rule within some microseconds: the last part of every wait is spun.
// Who impairs links includes this alone: it brings Impairment along, which says by how much.
#pragma once

#include <memory>

#include "protocol/link/impaired/impairment.h"
#include "protocol/link/link.h"

namespace tessera {

// What is sent through the result is impaired; what is received is not (impair the other end's for that). `link` outlives
// it. Up to 64 MiB are on their way, then Send waits.
std::unique_ptr<Link> MakeImpairedLink(Link& link, const Impairment& impairment);

// Both directions of a link whose other end is as it was: for who has only one of them in hand. What was received waits here
// until its time has come, up to 64 MiB of it. Cuts are those of what is sent.
std::unique_ptr<Link> MakeImpairedLink(std::unique_ptr<Link> link, const Impairment& impairment);

}  // namespace tessera
