// A request id that nobody has had before, for a request that is sent again until it is answered. Any thread.
#pragma once

#include <string>

namespace tessera {

// 32 digits.
std::string NewRequestId();

}  // namespace tessera
