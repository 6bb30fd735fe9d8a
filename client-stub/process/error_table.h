// The names and descriptions of CUDA's results. Constant; any thread.
#pragma once

#include <cuda.h>

namespace tessera {

struct ErrorText {
  CUresult code;
  const char* name;         // "CUDA_ERROR_INVALID_VALUE"
  const char* description;  // "invalid argument"
};

// Null for a number that is no CUresult.
const ErrorText* FindErrorText(CUresult code);

}  // namespace tessera
