// How much of a GPU's memory an array takes.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera {

struct DriverTable;  // generated/driver_table.h

// Of an array on the current context's `device`, or a mipmapped one with `levels` (0: a plain array). The driver is asked, with
// an array like it that gets no memory (CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA 11.6); where that cannot be, an upper bound. 0 for
// sparse arrays and those whose memory comes later. Source: CUDA Driver API, cuArrayGetMemoryRequirements.
uint64_t ArrayBytes(const DriverTable& driver, CUdevice device, const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned levels);

}  // namespace tessera
