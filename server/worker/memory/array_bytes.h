// How much of a GPU's memory an array takes.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera {

struct DriverTable;  // generated/driver_table.h

// What an array takes that needs so much, where the driver says how much that is. Small ones share pieces of 2 MiB, larger ones
// have pieces of their own; levels of a small pyramid are laid apart. An upper bound but for a piece that is shared by few
// (measured with driver 580 on an H100, 256 arrays of each of 100 forms).
uint64_t TakenByArray(uint64_t needed_bytes, unsigned levels);

// Of an array on the current context's `device`, or a mipmapped one with `levels` (0: a plain array). The driver is asked, with
// an array like it that gets no memory (CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA 11.6); where that cannot be, an upper bound. 0 for
// sparse arrays and those whose memory comes later. Source: CUDA Driver API, cuArrayGetMemoryRequirements.
uint64_t ArrayBytes(const DriverTable& driver, CUdevice device, const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned levels);

}  // namespace tessera
