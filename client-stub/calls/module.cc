// Modules: images are found in the application's memory and sent; functions are described once.

#include <cuda.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/calls/unload.h"
#include "client-stub/code/function_info.h"
#include "client-stub/code/image_load.h"
#include "client-stub/code/kernel_params.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/process/config.h"
#include "client-stub/session/client.h"
#include "generated/client_custom.h"
#include "generated/messages/launch.h"
#include "generated/messages/module.h"

namespace tessera {
namespace {

template <typename Request, typename Reply>
CUresult LoadModule(Call& call, CUmodule* module, const void* image, unsigned count, const CUjit_option* options, void** values) {
  if (module == nullptr || image == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  ClientJitOptions jit;
  if (!jit.Read(count, options, values)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  ImageParts parts;
  if (CUresult result = FindParts(image, &parts); result != CUDA_SUCCESS) return call.Fail(result);
  Request request;
  request.module = call.Mint(HandleKind::kModule);
  if (!call.ok()) return call.result();
  request.options.Borrow(jit.options());
  request.values.Borrow(jit.values());
  Reply reply;
  if (CUresult result = ImageUpload(call, parts).Sync(request, &reply); result != CUDA_SUCCESS) return result;
  jit.WriteOutputs(reply.info_log, reply.error_log, reply.wall_time_ms, reply.threads_per_block);
  if (reply.result != CUDA_SUCCESS) return call.Fail(static_cast<CUresult>(reply.result));
  Functions().NoteContext(request.module, call.owner_context());
  *module = reinterpret_cast<CUmodule>(request.module.value());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuModuleLoad(Call& call, CUmodule* module, const char* fname) {
  if (!call.ok()) return call.result();
  if (fname == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::vector<std::byte> file;
  if (CUresult result = ReadImageFile(fname, &file); result != CUDA_SUCCESS) return call.Fail(result);
  return LoadModule<cuModuleLoadRequest, cuModuleLoadReply>(call, module, file.data(), 0, nullptr, nullptr);
}

CUresult Custom_cuModuleLoadData(Call& call, CUmodule* module, const void* image) {
  if (!call.ok()) return call.result();
  return LoadModule<cuModuleLoadDataRequest, cuModuleLoadDataReply>(call, module, image, 0, nullptr, nullptr);
}

CUresult Custom_cuModuleLoadDataEx(Call& call, CUmodule* module, const void* image, unsigned int numOptions,
                                   CUjit_option* options, void** optionValues) {
  if (!call.ok()) return call.result();
  return LoadModule<cuModuleLoadDataExRequest, cuModuleLoadDataExReply>(call, module, image, numOptions, options, optionValues);
}

CUresult Custom_cuModuleLoadFatBinary(Call& call, CUmodule* module, const void* fatCubin) {
  if (!call.ok()) return call.result();
  return LoadModule<cuModuleLoadFatBinaryRequest, cuModuleLoadFatBinaryReply>(call, module, fatCubin, 0, nullptr, nullptr);
}

CUresult Custom_cuModuleUnload(Call& call, CUmodule hmod) {
  if (!call.ok()) return call.result();
  cuModuleUnloadRequest request;
  request.hmod = call.Free(HandleKind::kModule, hmod);
  if (!call.ok()) return call.result();
  return UnloadContainer(call, request, request.hmod);
}

CUresult Custom_cuModuleGetLoadingMode(Call& call, CUmoduleLoadingMode* mode) {
  if (!call.ok()) return call.result();
  if (mode == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *mode = GetConfig().eager_module_loading ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult Custom_cuModuleGetFunction(Call& call, CUfunction* hfunc, CUmodule hmod, const char* name) {
  if (!call.ok()) return call.result();
  cuModuleGetFunctionRequest request;
  request.module = call.Use(HandleKind::kModule, hmod);
  if (!call.ok()) return call.result();
  if (hfunc == nullptr || name == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (const FunctionInfo* known = Functions().FindByName(request.module, name)) {
    *hfunc = reinterpret_cast<CUfunction>(known->handle.value());
    return CUDA_SUCCESS;
  }
  request.function = call.Mint(HandleKind::kFunction);
  request.name = name;
  cuModuleGetFunctionReply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  auto info = std::make_unique<FunctionInfo>();
  info->handle = request.function;
  info->container = request.module;
  Functions().Describe(Functions().Insert(std::move(info)), name, reply);
  *hfunc = reinterpret_cast<CUfunction>(request.function.value());
  return CUDA_SUCCESS;
}

CUresult Custom_cuModuleEnumerateFunctions(Call& call, CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
  if (!call.ok()) return call.result();
  cuModuleEnumerateFunctionsRequest request;
  request.module = call.Use(HandleKind::kModule, mod);
  if (!call.ok()) return call.result();
  if (functions == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  request.capacity = numFunctions;
  cuModuleEnumerateFunctionsReply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.functions.size() > numFunctions) return call.Fail(CUDA_ERROR_UNKNOWN);
  for (size_t i = 0; i < reply.functions.size(); ++i) {
    call.Adopt(reply.functions[i]);
    auto info = std::make_unique<FunctionInfo>();
    info->handle = reply.functions[i];
    info->container = request.module;
    Functions().Insert(std::move(info));
    functions[i] = reinterpret_cast<CUfunction>(reply.functions[i].value());
  }
  return CUDA_SUCCESS;
}

CUresult Custom_cuModuleGetGlobal_v2(Call& call, CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  if (!call.ok()) return call.result();
  cuModuleGetGlobal_v2Request request;
  request.module = call.Use(HandleKind::kModule, hmod);
  if (!call.ok()) return call.result();
  if (name == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  request.name = name;
  cuModuleGetGlobal_v2Reply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  const Range range{reply.address, reply.bytes};
  if (const HandleId context = Functions().ContextOf(request.module); !context.is_null()) call.ActIn(context);
  const bool adopted = reply.managed ? AdoptManagedVariable(call, range, request.module, call.owner_context())
                                     : AdoptGlobal(call, range, request.module);
  if (!adopted) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  if (dptr != nullptr) *dptr = reply.address;
  if (bytes != nullptr) *bytes = reply.bytes;
  return CUDA_SUCCESS;
}

}  // namespace tessera
