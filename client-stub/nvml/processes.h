// The processes that use a device, as every list of them is filled: those of the server's sessions that it shows to this user.
// One of the server's host has the pid that it has there, one of another host the pid that it has on its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client-stub/nvml/library.h"

namespace tessera::nvml {

// Asks the server anew. With `loads`, which takes it longer, the loads are filled in.
nvmlReturn_t ReadUses(nvmlDevice_t handle, bool loads, std::vector<ServerReport::Use>* uses);

// What a process was started as: the first word of its command line, where the server runs on this host; of a process that came
// over a network, "PROGRAM, USER@HOST (NAME)", and the same where the server is on another host. False when there is no such
// process. May ask the servers.
bool ProcessName(unsigned pid, std::string* name);

}  // namespace tessera::nvml
