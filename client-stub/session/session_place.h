// Where a session stands among those of the process. Plain data.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client-stub/session/device_disguise.h"
#include "client-stub/session/session_flags.h"

namespace tessera {

// The process uses several servers: a call has to find out which one it is for (Call::Route...).
inline bool SeveralServers() { return SessionFlags::Process().several.load(std::memory_order_relaxed); }

// Which of the process' sessions one is, when it has several (server_plan.h). As it stands: the only one.
struct SessionPlace {
  uint32_t index = 0;              // in handles, and which part of the address windows is its own
  std::string server;              // as the user named it, for sentences; empty: there is only one
  std::string devices;             // the devices wanted of this server, as in CUDA_VISIBLE_DEVICES; empty: all
  std::string vgpus;               // of this server, as in TESSERA_VGPU; empty: none
  std::string ticket_file;         // of this server, as in TESSERA_TICKET; empty: none
  std::vector<CUdevice> ordinals;  // what the application calls them, in that order; empty: the server's own numbers
  DeviceDisguise disguise;         // what of them is changed, so that no two devices of the process look the same
};

}  // namespace tessera
