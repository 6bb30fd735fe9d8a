// Generated from protocol/spec/types.toml by protocol/codegen. Do not edit.
// What CUDA answers to a null or unknown handle of a kind.
#pragma once

#include <cuda.h>

#include "protocol/wire/handle.h"

namespace tessera {

constexpr CUresult HandleError(HandleKind kind) {
  switch (kind) {
    case HandleKind::kStream:
    case HandleKind::kEvent: return static_cast<CUresult>(400);
    default: return CUDA_ERROR_INVALID_HANDLE;
  }
}

}  // namespace tessera
