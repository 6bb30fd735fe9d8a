// Packs the parameters of a kernel launch into the one buffer that travels.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "client-stub/code/function_info.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

// Copies the parameters of `function` into `packed` (replacing its content) from either form of the driver API: `kernel_params`,
// one pointer per parameter, or `extra`, the list of CU_LAUNCH_PARAM_* words. The source is read before the function returns. If
// the buffer in `extra` is too small the rest is 0. CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: it is too large.
// CUDA_ERROR_INVALID_VALUE: a kernel with parameters gets both or neither, or a parameter's pointer is null. Any thread.
CUresult PackKernelParams(const FunctionInfo& function, void* const* kernel_params, void* const* extra,
                          std::vector<std::byte>* packed);

}  // namespace tessera
