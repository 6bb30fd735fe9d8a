#include "client-stub/process/cu_result.h"

namespace tessera {

CUresult ToCuResult(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk: return CUDA_SUCCESS;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnavailable:
    case StatusCode::kTimedOut: return CUDA_ERROR_NO_DEVICE;
    case StatusCode::kResourceExhausted:
    case StatusCode::kFull: return CUDA_ERROR_DEVICE_UNAVAILABLE;
    case StatusCode::kVersionMismatch: return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    case StatusCode::kUnsupported: return CUDA_ERROR_NOT_SUPPORTED;
    case StatusCode::kProtocolViolation:
    case StatusCode::kInternal: return CUDA_ERROR_UNKNOWN;
    case StatusCode::kOverran: return CUDA_ERROR_LAUNCH_TIMEOUT;
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace tessera
