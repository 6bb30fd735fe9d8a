// The number of a context, for libraries that ask through a hidden table. It is the number that cuCtxGetId returns.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera {

// Writes the number of `context`. A null context has the number 0 (measured on driver 580). Errors: CUDA_ERROR_INVALID_CONTEXT if
// it is no context, CUDA_ERROR_INVALID_VALUE if `number` is null, CUDA_ERROR_NOT_INITIALIZED before cuInit. Any thread.
CUresult ContextNumber(CUcontext context, uint64_t* number);

}  // namespace tessera
