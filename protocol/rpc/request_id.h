// Makes a new request id, for a request that the client repeats until it is answered. Any thread.
#pragma once

#include <string>

namespace tessera {

// 32 hexadecimal digits (128 random bits).
std::string NewRequestId();

}  // namespace tessera
