// What a server's GPUs are, and where in its host, as tesserad reports it. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "netaware/node/server_vgpus.h"
#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/server_query.h"

namespace tessera {

// By UUID. `links`: of each device of the snapshot the readings that ServerQuery::Ask::kLinks is answered with, or none.
std::map<std::string, ServerDevice> DevicesOf(const DeviceSnapshot& snapshot,
                                              const std::vector<std::vector<ServerReport::Value>>& links);

}  // namespace tessera
