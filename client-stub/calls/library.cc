// Libraries and kernels (context-independent code loading, CUDA 12): what every current cudart uses.

#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/call/describe_function.h"
#include "client-stub/calls/unload.h"
#include "client-stub/code/function_info.h"
#include "client-stub/code/function_questions.h"
#include "client-stub/code/image_load.h"
#include "client-stub/code/kernel_params.h"
#include "client-stub/code/library_copies.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/client.h"
#include "generated/client_custom.h"
#include "generated/messages/library.h"

namespace tessera {
namespace {

// Library options say how long the application keeps the image and where its host functions are
// (CUlibraryOption); the bytes are copied here in any case, so none of them travels. Their values are not looked at:
// cuBLASLt passes an option with a null array of values.
template <typename Request, typename Reply>
CUresult LoadLibrary(Call& call, CUlibrary* library, const void* image, unsigned count, const CUjit_option* options,
                     void** values, bool preserved) {
  if (library == nullptr || image == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  ClientJitOptions jit;
  if (!jit.Read(count, options, values)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  ImageParts parts;
  if (CUresult result = FindParts(image, &parts); result != CUDA_SUCCESS) return call.Fail(result);
  Request request;
  request.library = call.Mint(HandleKind::kLibrary);
  if (!call.ok()) return call.result();
  request.options.Borrow(jit.options());
  request.values.Borrow(jit.values());
  Reply reply;
  if (CUresult result = ImageUpload(call, parts).Sync(request, &reply); result != CUDA_SUCCESS) return result;
  jit.WriteOutputs(reply.info_log, reply.error_log, reply.wall_time_ms, reply.threads_per_block);
  if (reply.result != CUDA_SUCCESS) return call.Fail(static_cast<CUresult>(reply.result));
  if (SeveralServers()) {
    if (auto kept = LibraryCopies::Keep(image, preserved, count, options, values)) {
      LibraryCopies::Process().Add(request.library, std::move(kept));
    }
  }
  *library = reinterpret_cast<CUlibrary>(request.library.value());
  return CUDA_SUCCESS;
}

// Unloads the library in every session that has it. The first failure counts, but for servers that are gone.
CUresult UnloadEverywhere(Call& call, const std::vector<HandleId>& copies) {
  CUresult first = CUDA_SUCCESS;
  for (const HandleId copy : copies) {
    Session* session = Client::Get().SessionOf(copy);
    if (session->gone()) continue;
    Call unload(kInfo_cuLibraryUnload, false);
    unload.MoveTo(*session);
    cuLibraryUnloadRequest request;
    request.library = unload.Free(HandleKind::kLibrary, copy.value());
    if (unload.ok()) UnloadContainer(unload, request, copy);
    if (first == CUDA_SUCCESS) first = unload.result();
  }
  return call.Fail(first);
}

// One question about a variable of a library, by name.
template <typename Request, typename Reply>
CUresult GetVariable(Call& call, CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  Request request;
  request.library = call.Use(HandleKind::kLibrary, library);
  if (!call.ok()) return call.result();
  if (name == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  request.name = name;
  Reply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  bool managed = true;
  if constexpr (requires { reply.managed; }) managed = reply.managed;
  if (managed && SeveralServers() && !LibraryCopies::Process().BindForManaged(request.library)) {
    return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  }
  const Range range{reply.address, reply.bytes};
  // A library outlives contexts.
  const bool adopted =
      managed ? AdoptManagedVariable(call, range, request.library, HandleId()) : AdoptGlobal(call, range, request.library);
  if (!adopted) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  if (dptr != nullptr) *dptr = reply.address;
  if (bytes != nullptr) *bytes = reply.bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuLibraryLoadData(Call& call, CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                  void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                  void** /*libraryOptionValues*/, unsigned int numLibraryOptions) {
  if (!call.ok()) return call.result();
  bool preserved = false;
  for (unsigned i = 0; libraryOptions != nullptr && i < numLibraryOptions; ++i) {
    preserved = preserved || libraryOptions[i] == CU_LIBRARY_BINARY_IS_PRESERVED;
  }
  return LoadLibrary<cuLibraryLoadDataRequest, cuLibraryLoadDataReply>(call, library, code, numJitOptions, jitOptions,
                                                                       jitOptionsValues, preserved);
}

CUresult Custom_cuLibraryLoadFromFile(Call& call, CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                      void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption* /*libraryOptions*/,
                                      void** /*libraryOptionValues*/, unsigned int /*numLibraryOptions*/) {
  if (!call.ok()) return call.result();
  if (fileName == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::vector<std::byte> file;
  if (CUresult result = ReadImageFile(fileName, &file); result != CUDA_SUCCESS) return call.Fail(result);
  return LoadLibrary<cuLibraryLoadFromFileRequest, cuLibraryLoadFromFileReply>(call, library, file.data(), numJitOptions,
                                                                               jitOptions, jitOptionsValues, false);
}

CUresult Custom_cuLibraryUnload(Call& call, CUlibrary library) {
  if (!call.ok()) return call.result();
  if (SeveralServers()) {
    const auto copies = LibraryCopies::Process().Remove(HandleId(reinterpret_cast<uint64_t>(library)));
    if (!copies.empty()) return UnloadEverywhere(call, copies);
  }
  cuLibraryUnloadRequest request;
  request.library = call.Free(HandleKind::kLibrary, library);
  if (!call.ok()) return call.result();
  return UnloadContainer(call, request, request.library);
}

CUresult Custom_cuLibraryGetKernel(Call& call, CUkernel* pKernel, CUlibrary library, const char* name) {
  if (!call.ok()) return call.result();
  const HandleId id = call.Use(HandleKind::kLibrary, library);
  if (!call.ok()) return call.result();
  if (pKernel == nullptr || name == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  HandleId kernel;
  if (const CUresult result = GetKernel(call, id, name, &kernel); result != CUDA_SUCCESS) return result;
  if (SeveralServers()) kernel = LibraryCopies::Process().KnownKernel(id, name, kernel);
  *pKernel = reinterpret_cast<CUkernel>(kernel.value());
  return CUDA_SUCCESS;
}

CUresult Custom_cuLibraryEnumerateKernels(Call& call, CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
  if (!call.ok()) return call.result();
  cuLibraryEnumerateKernelsRequest request;
  request.library = call.Use(HandleKind::kLibrary, lib);
  if (!call.ok()) return call.result();
  if (kernels == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  request.capacity = numKernels;
  cuLibraryEnumerateKernelsReply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.kernels.size() > numKernels) return call.Fail(CUDA_ERROR_UNKNOWN);
  for (size_t i = 0; i < reply.kernels.size(); ++i) {
    call.Adopt(reply.kernels[i]);
    auto info = std::make_unique<FunctionInfo>();
    info->handle = reply.kernels[i];
    info->container = request.library;
    Functions().Insert(std::move(info));
    kernels[i] = reinterpret_cast<CUkernel>(reply.kernels[i].value());
  }
  return CUDA_SUCCESS;
}

CUresult Custom_cuKernelGetFunction(Call& call, CUfunction* pFunc, CUkernel kernel) {
  if (!call.ok()) return call.result();
  FunctionInfo* described = DescribeKernel(call, kernel);
  if (described == nullptr) return call.result();
  if (pFunc == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const HandleId known = Functions().FindOfKernel(described->handle, call.owner_context());
  if (known.value() != 0) {
    *pFunc = reinterpret_cast<CUfunction>(known.value());
    return CUDA_SUCCESS;
  }
  cuKernelGetFunctionRequest request;
  request.kernel = described->handle;
  cuKernelGetFunctionReply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  call.Adopt(reply.function);
  // The function is the kernel in one context: same name, same layout, same attributes.
  auto info = std::make_unique<FunctionInfo>();
  info->handle = reply.function;
  info->container = described->container;
  info->context = call.owner_context();
  info->described = true;
  info->name = described->name;
  info->layout = described->layout;
  info->parameter_bytes = described->parameter_bytes;
  info->shared = described->shared;
  Functions().Insert(std::move(info));
  Functions().RememberOfKernel(described->handle, call.owner_context(), reply.function);
  *pFunc = reinterpret_cast<CUfunction>(reply.function.value());
  return CUDA_SUCCESS;
}

CUresult Custom_cuKernelGetLibrary(Call& call, CUlibrary* pLib, CUkernel kernel) {
  if (!call.ok()) return call.result();
  const HandleId id = call.Use(HandleKind::kKernel, kernel);
  if (!call.ok()) return call.result();
  const FunctionInfo* info = Functions().Find(id);
  if (pLib == nullptr || info == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const HandleId library = SeveralServers() ? LibraryCopies::Process().KnownLibrary(info->container) : info->container;
  *pLib = reinterpret_cast<CUlibrary>(library.value());
  return CUDA_SUCCESS;
}

CUresult Custom_cuLibraryGetGlobal(Call& call, CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  if (!call.ok()) return call.result();
  return GetVariable<cuLibraryGetGlobalRequest, cuLibraryGetGlobalReply>(call, dptr, bytes, library, name);
}

CUresult Custom_cuLibraryGetManaged(Call& call, CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  if (!call.ok()) return call.result();
  return GetVariable<cuLibraryGetManagedRequest, cuLibraryGetManagedReply>(call, dptr, bytes, library, name);
}

CUresult Custom_cuKernelGetAttribute(Call& call, int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  if (!call.ok()) return call.result();
  if (pi == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  FunctionInfo* info = DescribeKernel(call, kernel);
  if (info == nullptr) return call.result();
  const QueryCache::Key key{call.info().id, {attrib, dev}};
  if (const auto known = info->shared->queries.Find(key)) {
    *pi = static_cast<int>(*known);
    return CUDA_SUCCESS;
  }
  cuKernelGetAttributeRequest request;
  request.attrib = attrib;
  request.kernel = info->handle;
  request.dev = call.DeviceNumber(dev);
  if (!call.ok()) return call.result();
  cuKernelGetAttributeReply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  info->shared->queries.Insert(key, reply.pi);
  *pi = reply.pi;
  return CUDA_SUCCESS;
}

CUresult Custom_cuKernelSetAttribute(Call& call, CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  if (!call.ok()) return call.result();
  FunctionInfo* info = DescribeKernel(call, kernel);
  if (info == nullptr) return call.result();
  if (info->shared->AlreadySet(attrib, dev, val)) return CUDA_SUCCESS;
  cuKernelSetAttributeRequest request;
  request.attrib = attrib;
  request.val = val;
  request.kernel = info->handle;
  request.dev = call.DeviceNumber(dev);
  if (!call.ok()) return call.result();
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) info->shared->RememberSet(attrib, dev, val);
  return result;
}

CUresult Custom_cuKernelGetName(Call& call, const char** name, CUkernel hfunc) {
  if (!call.ok()) return call.result();
  if (name == nullptr || hfunc == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const FunctionInfo* info = DescribeKernel(call, hfunc);
  if (info == nullptr) return call.result();
  *name = info->name.c_str();
  return CUDA_SUCCESS;
}

CUresult Custom_cuKernelGetParamInfo(Call& call, CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  if (!call.ok()) return call.result();
  const FunctionInfo* info = DescribeKernel(call, kernel);
  if (info == nullptr) return call.result();
  if (paramOffset == nullptr || paramIndex >= info->layout.size()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *paramOffset = info->layout[paramIndex].offset;
  if (paramSize != nullptr) *paramSize = info->layout[paramIndex].size;
  return CUDA_SUCCESS;
}

}  // namespace tessera
