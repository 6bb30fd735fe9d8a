// What the server is asked of functions and kernels: their names and layouts. Calling thread only.
#pragma once

#include "client-stub/code/function_info.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

// Asks for the name and layout of a live function or kernel, which came from an enumeration or was made from another one. Null
// when `call` failed.
FunctionInfo* AskFunction(BasicCall& call, HandleId function);
FunctionInfo* AskKernel(BasicCall& call, HandleId kernel);

// The kernel of a library of the call's session by its name: a new handle, or the one it has there already.
CUresult GetKernel(BasicCall& call, HandleId library, const char* name, HandleId* kernel);

}  // namespace tessera
