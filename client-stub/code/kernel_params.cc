#include "client-stub/code/kernel_params.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

// Reads the CU_LAUNCH_PARAM_* list of cuLaunchKernel's `extra` (driver API, cuLaunchKernel, second form).
CUresult CopyExtra(const FunctionInfo& function, void* const* extra, std::vector<std::byte>* packed) {
  packed->clear();
  const std::byte* buffer = nullptr;
  size_t bytes = 0;
  bool has_size = false;
  for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = static_cast<const std::byte*>(extra[i + 1]);
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      if (extra[i + 1] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      bytes = *static_cast<const size_t*>(extra[i + 1]);
      has_size = true;
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (function.parameter_bytes == 0) return CUDA_SUCCESS;
  if (buffer == nullptr || !has_size || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  // Fewer bytes than the kernel has parameters are no mistake: NCCL passes as much of its 4 KiB as a launch needs. More are one
  // (measured, driver 580); a structure's padding is left to pass.
  if (bytes > ((size_t{function.parameter_bytes} + 7) & ~size_t{7})) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  packed->assign(buffer, buffer + std::min(bytes, size_t{function.parameter_bytes}));
  packed->resize(function.parameter_bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult PackKernelParams(const FunctionInfo& function, void* const* kernel_params, void* const* extra,
                          std::vector<std::byte>* packed) {
  if (function.parameter_bytes > kParameterBytesMax) return CUDA_ERROR_INVALID_VALUE;
  if (kernel_params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (extra != nullptr) return CopyExtra(function, extra, packed);
  packed->resize(function.parameter_bytes);
  if (function.layout.empty()) return CUDA_SUCCESS;
  if (kernel_params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function.gaps) std::fill(packed->begin(), packed->end(), std::byte{0});
  std::byte* const to = packed->data();
  void* const* from = kernel_params;
  for (const ParameterSlot& slot : function.layout) {
    const void* const value = *from++;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // Nearly all are one of these, for which no function need be called.
    switch (slot.size) {
      case 4: std::memcpy(to + slot.offset, value, 4); break;
      case 8: std::memcpy(to + slot.offset, value, 8); break;
      default: std::memcpy(to + slot.offset, value, slot.size);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace tessera
