// What of the daemon's environment its workers have: whoever takes one over reads all of it.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// Of this process's environment what a driver, the C library and the emulated GPU have settings in, as "NAME=value".
std::vector<std::string> WorkerEnvironment();

}  // namespace tessera
