// cuGetProcAddress: which export stands behind a name, a CUDA version and flags.
//
// Rules measured on driver 580 (CUDA 13.0): the newest variant not newer than the wanted version; with
// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, of a name that has per-thread forms, only those, and their versions count;
// a name with a suffix, one that is unknown, or an empty one is not found. A negative version means the newest.
#pragma once

#include <cuda.h>

namespace tessera {

struct ProcAddressAnswer {
  CUresult result = CUDA_SUCCESS;  // CUDA_ERROR_INVALID_VALUE: nothing is written to the caller's variables
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

// `version_max`: what cuDriverGetVersion says; a wanted version beyond it is refused. Pure; any thread.
ProcAddressAnswer FindProcAddress(const char* name, int version, cuuint64_t flags, int version_max);

}  // namespace tessera
