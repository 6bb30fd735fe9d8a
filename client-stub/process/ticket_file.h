// The ticket that a process shows a server: the bytes of a file, which this side does not interpret.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Reads the file as it is now, since renewing a ticket replaces its file. Empty for an empty path. kResourceExhausted: the file
// cannot be read, or is longer than a ticket. Any thread.
Result<std::vector<std::byte>> ReadTicket(const std::string& path);

}  // namespace tessera
