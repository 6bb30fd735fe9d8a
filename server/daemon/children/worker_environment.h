// The part of the daemon's environment that its workers get: whoever takes over a worker can read all of it.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// The settings of the driver, the C library and the emulated GPU in this process's environment, as "NAME=value".
std::vector<std::string> WorkerEnvironment();

}  // namespace tessera
