// The processes that use a device, as every list of them is filled: those of the server's sessions, which are this user's
// (the server serves nobody else), under the pids and names of this host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client-stub/nvml/library.h"

namespace tessera::nvml {

// Asks the server anew. With `loads`, which takes it longer, the loads are filled in.
nvmlReturn_t ReadUses(nvmlDevice_t handle, bool loads, std::vector<ServerReport::Use>* uses);

// What a process was started as: the first word of its command line. False when there is no such process.
bool ProcessName(unsigned pid, std::string* name);

}  // namespace tessera::nvml
