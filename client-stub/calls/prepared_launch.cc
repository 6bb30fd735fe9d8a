// Launches prepared one setting at a time (CUDA 3 and older): the settings stay here, the launch is an ordinary one.

#include <cuda.h>

#include <algorithm>

#include "client-stub/call/call.h"
#include "client-stub/call/describe_function.h"
#include "client-stub/code/kernel_params.h"
#include "client-stub/code/prepared_launch.h"
#include "client-stub/session/client.h"
#include "generated/client/launch.h"

namespace tessera {
namespace {

// The settings of a function or kernel; null, with the call failed, for anything else.
PreparedLaunch* FindPrepared(Call& call, CUfunction f) {
  if (!call.ok()) return nullptr;
  FunctionInfo* function = DescribeFunction(call, f);
  return function == nullptr ? nullptr : &function->prepared;
}

CUresult Write(Call& call, CUfunction f, int offset, const void* value, size_t bytes) {
  PreparedLaunch* prepared = FindPrepared(call, f);
  if (prepared == nullptr) return call.result();
  if (value == nullptr && bytes != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  return call.Fail(prepared->Write(offset, std::span(static_cast<const std::byte*>(value), bytes)));
}

CUresult Launch(Call& call, CUfunction f, int width, int height, CUstream stream) {
  if (!call.ok()) return call.result();
  const FunctionInfo* function = DescribeFunction(call, f);
  if (function == nullptr) return call.result();
  if (width <= 0 || height <= 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  PreparedLaunch::Settings settings = function->prepared.Get();
  // Parameters beyond what was set are zero: driver 580 launches then, too.
  settings.parameters.resize(std::max<size_t>(settings.parameters.size(), function->parameter_bytes));
  size_t bytes = settings.parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, settings.parameters.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  const auto [x, y, z] = settings.block;
  return call.Fail(Enter_cuLaunchKernel(false, f, static_cast<unsigned>(width), static_cast<unsigned>(height), 1, x, y, z,
                                        settings.shared_bytes, stream, nullptr, extra));
}

}  // namespace

CUresult Custom_cuFuncSetBlockShape(Call& call, CUfunction hfunc, int x, int y, int z) {
  PreparedLaunch* prepared = FindPrepared(call, hfunc);
  return prepared == nullptr ? call.result() : call.Fail(prepared->SetBlock(x, y, z));
}

CUresult Custom_cuFuncSetSharedSize(Call& call, CUfunction hfunc, unsigned int bytes) {
  PreparedLaunch* prepared = FindPrepared(call, hfunc);
  if (prepared == nullptr) return call.result();
  int most = 0;
  const CUresult result = Enter_cuFuncGetAttribute(false, &most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, hfunc);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  if (bytes > static_cast<unsigned>(most)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  prepared->SetShared(bytes);
  return CUDA_SUCCESS;
}

CUresult Custom_cuParamSetSize(Call& call, CUfunction hfunc, unsigned int numbytes) {
  PreparedLaunch* prepared = FindPrepared(call, hfunc);
  return prepared == nullptr ? call.result() : call.Fail(prepared->SetParameterBytes(numbytes));
}

CUresult Custom_cuParamSeti(Call& call, CUfunction hfunc, int offset, unsigned int value) {
  return Write(call, hfunc, offset, &value, sizeof(value));
}

CUresult Custom_cuParamSetf(Call& call, CUfunction hfunc, int offset, float value) {
  return Write(call, hfunc, offset, &value, sizeof(value));
}

CUresult Custom_cuParamSetv(Call& call, CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
  return Write(call, hfunc, offset, ptr, numbytes);
}

CUresult Custom_cuLaunch(Call& call, CUfunction f) { return Launch(call, f, 1, 1, nullptr); }

CUresult Custom_cuLaunchGrid(Call& call, CUfunction f, int grid_width, int grid_height) {
  return Launch(call, f, grid_width, grid_height, nullptr);
}

CUresult Custom_cuLaunchGridAsync(Call& call, CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  return Launch(call, f, grid_width, grid_height, hStream);
}

}  // namespace tessera
