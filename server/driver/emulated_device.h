// What the emulated GPU would tell of itself if it had an NVML, from the attributes that its driver tells. Pure.
#pragma once

#include <vector>

#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/server_query.h"

namespace tessera {

// What belongs to ServerQuery::Ask::kState beside memory and load, and to kDetails.
void AddEmulatedState(const DeviceSnapshot::Device& device, std::vector<ServerReport::Value>* values);
void AddEmulatedDetails(const DeviceSnapshot::Device& device, std::vector<ServerReport::Value>* values);

}  // namespace tessera
