// A link between two threads of one process, for tests without a network.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "protocol/link/link.h"

namespace tessera {

// Makes two connected ends. Send() waits while more than `capacity_bytes` of frames are on their way in its direction; one frame
// is always let through. The ends may be destroyed in any order.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeInProcessLink(size_t capacity_bytes = size_t{4} << 20);

}  // namespace tessera
