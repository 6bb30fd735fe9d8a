// Measures how much of each GPU's memory a context takes, by making one.
#pragma once

#include <cstdint>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/wire/device_snapshot.h"

namespace tessera {

// Makes the primary context of each device, as a worker does, and releases it. Returns bytes by device of the snapshot. 0: no
// context can be made (the GPU is full, or belongs to an exclusive process), or nobody tells what it takes. Takes some 300 ms on
// a real GPU. Call it in a process of its own, since what the driver keeps stays until the process ends. `table` is initialised.
//
// For a real GPU NVML tells what this process uses. In a container NVML may know the process by another number. Then the growth
// of the device's use is the answer, which others can spoil by allocating at that moment.
std::vector<uint64_t> MeasureContexts(const DriverTable& table, const DeviceSnapshot& devices, bool emulated);

}  // namespace tessera
