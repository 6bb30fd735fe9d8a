// Names and descriptions of results.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/process/error_table.h"
#include "generated/client/error.h"

namespace tessera {

CUresult Custom_cuGetErrorString(Call& call, CUresult error, const char** pStr) {
  if (pStr == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const ErrorText* text = FindErrorText(error);
  *pStr = text == nullptr ? nullptr : text->description;
  return text == nullptr ? call.Fail(CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

CUresult Custom_cuGetErrorName(Call& call, CUresult error, const char** pStr) {
  if (pStr == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const ErrorText* text = FindErrorText(error);
  *pStr = text == nullptr ? nullptr : text->name;
  return text == nullptr ? call.Fail(CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

}  // namespace tessera
