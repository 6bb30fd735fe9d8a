// The memory that driven calls name.
#pragma once

#include <cstdint>

#include "protocol/memory/window_table.h"

namespace tessera {

// Of every piece of memory, and of every copy.
inline constexpr uint64_t kBytes = 4096;

inline WindowPair Windows() { return SessionWindows(0, 0); }
// Memory of a device.
inline uint64_t DeviceMemory() { return Windows().device.base; }
inline uint64_t OtherDeviceMemory() { return DeviceMemory() + (uint64_t{1} << 20); }
// Pinned memory of a client on another machine.
inline uint64_t MirroredMemory() { return Windows().host.base; }

}  // namespace tessera
