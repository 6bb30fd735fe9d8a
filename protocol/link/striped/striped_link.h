// One link made of several, for what one connection or one core cannot carry alone. Small frames travel over the first
// of them; a large one is cut into as many parts as there are links, which travel at once. So frames keep their order
// by themselves: nothing that follows a large frame is looked at before all of its parts are there.
//
// On the first link a part has the header of the whole frame, with `bytes` of the part and, in `kind` from bit 8 up,
// the bytes of the whole; on the others that of the frame that the part would be alone, with the same `kind`. The first
// part tells the receiver where the others go.
//
// The loss of one of the links is the loss of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/link/link.h"
#include "protocol/link/link_options.h"

namespace tessera {

// At least so many bytes of payload are cut: below, the threads that carry the parts cost more than they bring.
inline constexpr uint64_t kStripedBytesMin = uint64_t{128} << 10;

// The links at one end, in the same order as those at the other; at least one, at most kConnectionsMax. With a thread for
// each but the first and each direction, which sleeps while there is nothing large; kResourceExhausted when they could
// not be started.
Result<std::unique_ptr<Link>> MakeStripedLink(std::vector<std::unique_ptr<Link>> links);

}  // namespace tessera
