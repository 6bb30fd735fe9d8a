// The number of a context as libraries ask for it: the same that cuCtxGetId returns.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera {

// A null context gives 0 and success (measured on driver 580). CUDA_ERROR_INVALID_CONTEXT for what is no context.
CUresult ContextNumber(CUcontext context, uint64_t* number);

}  // namespace tessera
