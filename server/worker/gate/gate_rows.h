// Finds the rows of a worker's devices in its pages (server/gate).
#pragma once

#include <cuda.h>

#include <vector>

#include "server/gate/gate_page.h"
#include "server/gate/gpu_uuid.h"

namespace tessera {

struct DriverTable;  // generated/driver_table.h

inline constexpr int kNoRow = -1;

// Returns the name of the device's GPU by which the daemon knows it; zeros: the driver does not say.
GpuUuid GpuUuidOf(const DriverTable& driver, CUdevice device);

// The row of each device, by its number; kNoRow: the page does not know the GPU. Empty: the driver does not say how many devices
// there are.
std::vector<int> GateRowsOf(const DriverTable& driver, const GatePage& page);

}  // namespace tessera
