// How much of a GPU's memory a CUDA array takes.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera {

struct DriverTable;  // generated/driver_table.h

// Returns the bytes that the driver takes for an array, given the bytes that it says the array needs. `levels`: of a mipmapped
// array; 0: a plain array. Small arrays share pieces of 2 MiB, and larger ones have pieces of their own. The levels of a small
// mipmapped array are laid apart. The result is an upper bound, unless a piece is shared by few arrays. (Measured with driver 580
// on an H100, with 256 arrays of each of 100 forms.)
uint64_t TakenByArray(uint64_t needed_bytes, unsigned levels);

// Returns the bytes that an array on the current context's `device` takes. `levels`: of a mipmapped array; 0: a plain array. This
// asks the driver about an array of the same form that gets no memory (CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA 11.6). Where that
// fails it returns an upper bound. It returns 0 for sparse arrays and for arrays whose memory comes later. Source: CUDA Driver
// API, cuArrayGetMemoryRequirements.
uint64_t ArrayBytes(const DriverTable& driver, CUdevice device, const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned levels);

}  // namespace tessera
