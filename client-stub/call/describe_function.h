// What is known of the functions and kernels that an application passes. Calling thread only.
#pragma once

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/code/function_info.h"

namespace tessera {

// The info of a handle passed as CUfunction: a function or a kernel (the driver takes both). Asks the server once if the handle
// came from an enumeration. Null, with the call failed (400): it is anything else.
FunctionInfo* DescribeFunction(Call& call, CUfunction function);
FunctionInfo* DescribeKernel(Call& call, CUkernel kernel);

}  // namespace tessera
