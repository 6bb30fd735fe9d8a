// Descriptions of a server's GPUs and their places in the host, from tesserad's report. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "netaware/node/server_vgpus.h"
#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/server_query.h"

namespace tessera {

// Returns the devices by UUID. `links`: for each device of the snapshot the readings of the answer to ServerQuery::Ask::kLinks,
// or none.
std::map<std::string, ServerDevice> DevicesOf(const DeviceSnapshot& snapshot,
                                              const std::vector<std::vector<ServerReport::Value>>& links);

}  // namespace tessera
