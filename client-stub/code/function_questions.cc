#include "client-stub/code/function_questions.h"

#include <memory>
#include <utility>

#include "generated/client/launch.h"
#include "generated/client/library.h"

namespace tessera {
namespace {

template <typename Reply>
FunctionInfo* Keep(HandleId handle, const Reply& reply) {
  auto info = std::make_unique<FunctionInfo>();
  info->handle = handle;
  FunctionInfo* entry = Functions().Insert(std::move(info));
  Functions().Describe(entry, reply.name, reply);
  return entry;
}

}  // namespace

FunctionInfo* AskFunction(BasicCall& call, HandleId function) {
  BasicCall question(kInfo_cuFuncGetParamInfo, call);
  cuFuncGetParamInfoRequest request;
  request.func = function;
  cuFuncGetParamInfoReply reply;
  if (const CUresult result = question.Sync(request, &reply); result != CUDA_SUCCESS) return call.Fail(result), nullptr;
  return Keep(function, reply);
}

FunctionInfo* AskKernel(BasicCall& call, HandleId kernel) {
  BasicCall question(kInfo_cuKernelGetParamInfo, call);
  cuKernelGetParamInfoRequest request;
  request.kernel = kernel;
  cuKernelGetParamInfoReply reply;
  if (const CUresult result = question.Sync(request, &reply); result != CUDA_SUCCESS) return call.Fail(result), nullptr;
  return Keep(kernel, reply);
}

CUresult GetKernel(BasicCall& call, HandleId library, const char* name, HandleId* kernel) {
  if (const FunctionInfo* known = Functions().FindByName(library, name)) {
    *kernel = known->handle;
    return CUDA_SUCCESS;
  }
  cuLibraryGetKernelRequest request;
  request.library = library;
  request.kernel = call.Mint(HandleKind::kKernel);
  request.name = name;
  cuLibraryGetKernelReply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  auto info = std::make_unique<FunctionInfo>();
  info->handle = request.kernel;
  info->container = request.library;
  FunctionInfo* entry = Functions().Insert(std::move(info));
  if (reply.has_layout != 0) Functions().Describe(entry, name, reply);
  *kernel = request.kernel;
  return CUDA_SUCCESS;
}

}  // namespace tessera
