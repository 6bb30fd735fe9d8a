// Attributes and parameter layout, alike for CUfunction and CUkernel.
#pragma once

#include "server/emulator/driver/code/module.h"

namespace tessera::emulator {

CUresult ParameterInfo(const KernelInfo& info, size_t index, size_t* offset, size_t* size);
CUresult FunctionAttribute(const KernelInfo& info, const FunctionSettings& settings, CUfunction_attribute attribute, int* value);
CUresult SetFunctionAttribute(const KernelInfo& info, FunctionSettings& settings, CUfunction_attribute attribute, int value);
// The function's CU_FUNC_ATTRIBUTE_BINARY_VERSION: 0 where there is no code that this device runs, which a launch will say.
int BinaryVersion(const Function& function);
// Bytes of dynamic shared memory a launch may ask for.
int MaxDynamicShared(const KernelInfo& info, const FunctionSettings& settings);
// Lowers the function. CUDA_ERROR_NO_BINARY_FOR_GPU for machine code, CUDA_ERROR_INVALID_PTX for PTX the emulator does
// not know; one sentence on standard error says why.
CUresult PrepareFunction(const Function& function);

}  // namespace tessera::emulator
