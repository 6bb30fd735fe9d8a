// A session's place among those of the process. Plain data.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client-stub/session/device_disguise.h"
#include "client-stub/session/session_flags.h"

namespace tessera {

// Whether the process uses several servers. Then a call has to find the one that it is for (Call::Route...).
inline bool SeveralServers() { return SessionFlags::Process().several.load(std::memory_order_relaxed); }

// A session of a process with several (server_plan.h). The defaults are those of an only session.
struct SessionPlace {
  uint32_t index = 0;              // its number in handles; also tells its part of the address windows
  std::string server;              // as the user named it, for sentences; empty: there is only one
  std::string devices;             // the devices wanted of this server, as in CUDA_VISIBLE_DEVICES; empty: all
  std::string vgpus;               // of this server, as in TESSERA_VGPU; empty: none
  std::string ticket_file;         // of this server, as in TESSERA_TICKET; empty: none
  std::vector<CUdevice> ordinals;  // the application's numbers for them, in that order; empty: the server's own numbers
  DeviceDisguise disguise;         // what is changed so that no two devices of the process look the same
};

}  // namespace tessera
