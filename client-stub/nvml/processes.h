// The processes that use a device: those of the sessions that the server shows to this user. All functions that list processes
// use this. A process has the pid that it has on its own host, be that the server's or another one. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client-stub/nvml/library.h"

namespace tessera::nvml {

// Asks the server anew and appends the uses of this device. With `loads` their loads are filled in, which takes the server
// longer. Errors: as State() (library.h).
nvmlReturn_t ReadUses(nvmlDevice_t handle, bool loads, std::vector<ServerReport::Use>* uses);

// The name of a process. For a session from another host than this one it is "PROGRAM, USER@HOST (NAME)". For any other process
// it is the first word of its command line on this host, or its short name if it has none (a kernel thread). False: there is no
// such process. It may ask the servers.
bool ProcessName(unsigned pid, std::string* name);

}  // namespace tessera::nvml
