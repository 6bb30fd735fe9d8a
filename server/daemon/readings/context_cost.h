// What a context takes of each GPU's memory: measured by making one.
#pragma once

#include <cstdint>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/wire/device_snapshot.h"

namespace tessera {

// Makes the primary context of each device, as a worker does, and lets them go. Bytes by device of the snapshot; 0 where none can
// be made (a full GPU, or one of an exclusive process), or nobody tells what it takes. Takes some 300 ms on a real GPU. For a
// process of its own: what the driver keeps stays until its end. `table` is initialised.
//
// A real GPU's NVML tells what this process uses. In a container it may know the process by another number: what the device's use
// grew by is the answer then, which others can spoil by allocating at that moment.
std::vector<uint64_t> MeasureContexts(const DriverTable& table, const DeviceSnapshot& devices, bool emulated);

}  // namespace tessera
