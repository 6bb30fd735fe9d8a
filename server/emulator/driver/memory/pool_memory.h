// Memory that a pool hands out.
#pragma once

#include <memory>

#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/device/named_memory.h"
#include "server/emulator/driver/device/pool.h"

namespace tessera::emulator {

// Enters memory of a pool: the bytes of `backing`, or where that is null fresh pages. CUDA_ERROR_OUT_OF_MEMORY when the pool,
// the device or the process has no more. Any thread.
CUresult AddPoolMemory(const PoolPtr& pool, uint64_t handle, uint64_t size_bytes, std::shared_ptr<NamedMemory> backing,
                       CUdeviceptr* out);

}  // namespace tessera::emulator
