// A link between two threads of one process: proves what a channel over a link means, without a network.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "protocol/link/link.h"

namespace tessera {

// Two ends that are connected. At most `capacity_bytes` of frames are on their way in one direction (one frame always may
// be): then Send waits. Each end keeps what both share, so they may be destroyed in any order.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeInProcessLink(size_t capacity_bytes = size_t{4} << 20);

}  // namespace tessera
