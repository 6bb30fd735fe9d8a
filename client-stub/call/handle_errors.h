// What CUDA returns for a null or unknown handle of each kind (protocol/spec/types.toml, `error`; a test compares).
#pragma once

#include <cuda.h>

#include "protocol/wire/handle.h"

namespace tessera {

constexpr CUresult HandleError(HandleKind kind) {
  switch (kind) {
    case HandleKind::kContext:
    case HandleKind::kGreenContext: return CUDA_ERROR_INVALID_CONTEXT;
    case HandleKind::kGraph:
    case HandleKind::kGraphNode:
    case HandleKind::kGraphExec:
    case HandleKind::kMemoryPool:
    case HandleKind::kMemoryAllocation:
    case HandleKind::kUserObject:
    case HandleKind::kResourceDescriptor:
    case HandleKind::kGraphDeviceNode:
    case HandleKind::kAsyncCallback:
    case HandleKind::kLogsCallback: return CUDA_ERROR_INVALID_VALUE;
    default: return CUDA_ERROR_INVALID_HANDLE;
  }
}

}  // namespace tessera
