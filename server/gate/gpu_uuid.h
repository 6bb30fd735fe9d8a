// How the daemon and its workers name a GPU.
#pragma once

#include <array>
#include <cstddef>

namespace tessera {

// What cuDeviceGetUuid_v2 says; zeros: none.
using GpuUuid = std::array<std::byte, 16>;

}  // namespace tessera
