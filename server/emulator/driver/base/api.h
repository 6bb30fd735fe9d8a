// The CUDA driver API as this library exports it: cuda.h with the exact export names (cuMemAlloc_v2 and so on) and the
// only declarations of the library that are visible outside. Include this instead of cuda.h.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

// What the functions that answer a CUresult say in one line.
#define RETURN_ON_ERROR(expression)                                               \
  do {                                                                            \
    if (CUresult result_ = (expression); result_ != CUDA_SUCCESS) return result_; \
  } while (false)
#define RETURN_IF(condition, code) \
  do {                             \
    if (condition) return code;    \
  } while (false)
