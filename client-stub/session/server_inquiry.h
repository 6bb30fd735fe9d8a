// Asks every server of a list what devices it has. Begins no session there. Any thread.
#pragma once

#include <string>
#include <vector>

#include "client-stub/process/config.h"
#include "client-stub/session/device_disguise.h"
#include "protocol/base/status.h"
#include "protocol/wire/device_snapshot.h"

namespace tessera {

struct AskedServer {
  std::string name;         // for sentences
  DeviceSnapshot snapshot;  // all devices of the server
};

// In the order of the list. Returns the first failure; with several servers its sentence names the server.
Result<std::vector<AskedServer>> AskServers(const ServerList& list);

// How the devices of each server are changed so that no two look the same. Pure.
std::vector<DeviceDisguise> DisguisesOf(const std::vector<AskedServer>& servers);

}  // namespace tessera
