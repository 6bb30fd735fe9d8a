// What is known of the functions and kernels that an application passes. Calling thread only.
#pragma once

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/code/function_info.h"

namespace tessera {

// Of a handle passed as CUfunction: a function or a kernel (the driver takes both). Asks the server once when the handle came
// from an enumeration. Null, with the call failed (400), for anything else.
FunctionInfo* DescribeFunction(Call& call, CUfunction function);
FunctionInfo* DescribeKernel(Call& call, CUkernel kernel);

}  // namespace tessera
