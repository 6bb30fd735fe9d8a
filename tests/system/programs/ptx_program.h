// What the programs share that use the driver API alone, with their kernels as PTX text: built by the C++ compiler, so that they
// exist without nvcc and can carry a sanitizer.
#pragma once

#include <cuda.h>

#include "check.h"

// The primary context of device 0 becomes current; `kernel` of `ptx` is loaded into it.
inline CUfunction LoadKernel(const char* ptx, const char* kernel) {
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CHECK_DRIVER(cuModuleLoadData(&module, ptx));
  CHECK_DRIVER(cuModuleGetFunction(&function, module, kernel));
  return function;
}
