// What a call ends with whose function the loaded driver lacks.
#pragma once

#include <cuda.h>

namespace tessera {

// CUDA_ERROR_NOT_SUPPORTED; logs the name the first time. Any thread.
CUresult MissingEntry(const char* name);

}  // namespace tessera
