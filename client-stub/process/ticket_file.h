// The ticket that a process shows a server: bytes of a file, at which this side does not look.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// What stands in the file now: whoever renews the ticket replaces it. Nothing for an empty path. kResourceExhausted: it cannot be
// read, or has more than a ticket. Any thread.
Result<std::vector<std::byte>> ReadTicket(const std::string& path);

}  // namespace tessera
