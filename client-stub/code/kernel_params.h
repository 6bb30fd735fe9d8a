// Packs the parameters of a kernel launch into the one buffer that travels.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/code/function_info.h"

namespace tessera {

// Copies the parameters of `function` into `packed` (replacing its content) from either form of the driver API:
// `kernel_params`, one pointer per parameter, or `extra`, the list of CU_LAUNCH_PARAM_* words. The source is read before
// the function returns. What a smaller buffer in `extra` leaves out is 0; a larger one is CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES.
// CUDA_ERROR_INVALID_VALUE when both or neither are given for
// a kernel that has parameters, or when a parameter's pointer is null. Any thread.
CUresult PackKernelParams(const FunctionInfo& function, void* const* kernel_params, void* const* extra,
                          std::vector<std::byte>* packed);

// What is known of a handle passed as CUfunction: a function or a kernel (the driver takes both). Asks the server once
// when the handle came from an enumeration. Null, with the call failed (400), for anything else.
FunctionInfo* DescribeFunction(Call& call, CUfunction function);
FunctionInfo* DescribeKernel(Call& call, CUkernel kernel);
// The kernel of a library of the call's session by its name: a new handle, or the one it has there already.
CUresult GetKernel(Call& call, HandleId library, const char* name, HandleId* kernel);

}  // namespace tessera
