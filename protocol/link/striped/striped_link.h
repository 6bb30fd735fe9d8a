// One link made of several, for more than one connection or one core can carry. Small frames travel over the first of them. A
// large frame is cut into as many parts as there are links, and all parts travel at once. The order of frames is kept: what
// follows a large frame is not looked at before all its parts are there.
//
// On the first link a part has the header of the whole frame, with `bytes` of the part and, in `kind` from bit 8 up,
// the bytes of the whole; on the others that of the frame that the part would be alone, with the same `kind`. The first
// part tells the receiver where the others go.
//
// If one of the links is lost, all are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/link/link.h"
#include "protocol/link/link_options.h"

namespace tessera {

// Payloads from this size on are cut. Below it the threads that carry the parts cost more than they bring.
inline constexpr uint64_t kStripedBytesMin = uint64_t{128} << 10;

// `links`: those of one end, in the same order as at the other end; 1 to kConnectionsMax. Each link but the first has a thread
// for each direction, which sleeps while there is no large frame. kResourceExhausted: a thread could not be started.
Result<std::unique_ptr<Link>> MakeStripedLink(std::vector<std::unique_ptr<Link>> links);

}  // namespace tessera
