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

// In the order of the list. The first failure; where there are several servers its sentence names the one.
Result<std::vector<AskedServer>> AskServers(const ServerList& list);

// What changes about the devices of each server, so that no two look the same. Pure.
std::vector<DeviceDisguise> DisguisesOf(const std::vector<AskedServer>& servers);

}  // namespace tessera
