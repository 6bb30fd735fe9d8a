// Libraries and kernels (context-independent code loading, CUDA 12).

#include <cuda.h>

#include <algorithm>
#include <string>
#include <vector>

#include "generated/driver_table.h"
#include "generated/messages/library.h"
#include "generated/server_custom.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/code/image_charge.h"
#include "server/worker/code/image_load.h"
#include "server/worker/code/managed_variable.h"
#include "server/worker/streams/stream_visits.h"

namespace tessera {
namespace {

constexpr uint32_t kKernelsMax = 1 << 16;  // of one library in one enumeration

template <typename Reply, typename Request>
void LoadLibrary(CallContext& call, const Request& request) {
  ImageLoad<Reply> load(call, request);
  if (load.image == nullptr) return;
  // The image stays in this process as long as the library, so the driver need not copy it.
  CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
  void* yes = reinterpret_cast<void*>(uintptr_t{1});
  CUlibrary library = nullptr;
  const CUresult result = LoadCharged(call, *load.image, request.library, [&] {
    return call.driver().cuLibraryLoadData(&library, load.image->data(), load.options.options(), load.options.values(),
                                           load.options.count(), &preserved, &yes, 1);
  });
  if (result == CUDA_SUCCESS) call.New(request.library, library);
  load.Finish(call, result, request.library, true);
}

}  // namespace

void Do_cuLibraryLoadData(CallContext& call, const cuLibraryLoadDataRequest& request) {
  LoadLibrary<cuLibraryLoadDataReply>(call, request);
}
void Do_cuLibraryLoadFromFile(CallContext& call, const cuLibraryLoadFromFileRequest& request) {
  LoadLibrary<cuLibraryLoadFromFileReply>(call, request);
}

void Do_cuLibraryUnload(CallContext& call, const cuLibraryUnloadRequest& request) {
  CUlibrary library = call.Use<CUlibrary>(request.library);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuLibraryUnload(library);
  if (result == CUDA_SUCCESS) {
    DropFunctions(call, request.functions);
    call.Free(request.library);
    call.worker().parts().loaded_images().Drop(request.library);
  }
  call.Finish(result);
}

void Do_cuLibraryGetKernel(CallContext& call, const cuLibraryGetKernelRequest& request) {
  CUlibrary library = call.Use<CUlibrary>(request.library);
  if (!call.ok()) return call.Finish(call.error());
  CUkernel kernel = nullptr;
  const CUresult result = call.driver().cuLibraryGetKernel(&kernel, library, std::string(request.name).c_str());
  cuLibraryGetKernelReply reply;
  if (result == CUDA_SUCCESS) {
    call.New(request.kernel, kernel);
    // A kernel may be asked for without a context, its layout not: driver 580 then answers 201, or answers and loses
    // what the kernel prints later. The client asks for the layout before it launches.
    CUresult layout_result = CUDA_SUCCESS;
    const KernelLayout* layout =
        call.header().context == 0 ? nullptr : call.worker().parts().layouts().Find(request.kernel, &layout_result);
    reply.has_layout = layout != nullptr;
    if (layout != nullptr) layout->Describe(&reply);
  }
  call.Finish(result, reply);
}

void Do_cuLibraryEnumerateKernels(CallContext& call, const cuLibraryEnumerateKernelsRequest& request) {
  CUlibrary library = call.Use<CUlibrary>(request.library);
  if (!call.ok()) return call.Finish(call.error());
  unsigned count = 0;
  CUresult result = call.driver().cuLibraryGetKernelCount(&count, library);
  count = std::min({count, request.capacity, kKernelsMax});
  std::vector<CUkernel> kernels(count);
  if (result == CUDA_SUCCESS) result = call.driver().cuLibraryEnumerateKernels(kernels.data(), count, library);
  cuLibraryEnumerateKernelsReply reply;
  if (result == CUDA_SUCCESS) {
    HandleId* handles = reply.kernels.Allocate(count);
    for (unsigned i = 0; i < count; ++i) handles[i] = call.Known(HandleKind::kKernel, kernels[i]);
  }
  call.Finish(result, reply);
}

void Do_cuKernelGetFunction(CallContext& call, const cuKernelGetFunctionRequest& request) {
  CUkernel kernel = call.Use<CUkernel>(request.kernel);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().parts().stream_visits().Settle();
  CUfunction function = nullptr;
  const CUresult result = call.driver().cuKernelGetFunction(&function, kernel);
  cuKernelGetFunctionReply reply;
  if (result == CUDA_SUCCESS) reply.function = call.Known(HandleKind::kFunction, function);
  call.Finish(result, reply);
}

void Do_cuLibraryGetGlobal(CallContext& call, const cuLibraryGetGlobalRequest& request) {
  CUlibrary library = call.Use<CUlibrary>(request.library);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().parts().stream_visits().Settle();
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const CUresult result = call.driver().cuLibraryGetGlobal(&address, &bytes, library, std::string(request.name).c_str());
  cuLibraryGetGlobalReply reply;
  reply.address = address;
  reply.bytes = bytes;
  reply.managed = result == CUDA_SUCCESS && IsManagedVariable(call.driver(), address);
  call.Finish(result, reply);
}

void Do_cuLibraryGetManaged(CallContext& call, const cuLibraryGetManagedRequest& request) {
  CUlibrary library = call.Use<CUlibrary>(request.library);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().parts().stream_visits().Settle();
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const CUresult result = call.driver().cuLibraryGetManaged(&address, &bytes, library, std::string(request.name).c_str());
  cuLibraryGetManagedReply reply;
  reply.address = address;
  reply.bytes = bytes;
  call.Finish(result, reply);
}

void Do_cuKernelGetName(CallContext& call, const cuKernelGetNameRequest& request) {
  CUkernel kernel = call.Use<CUkernel>(request.hfunc);
  if (!call.ok()) return call.Finish(call.error());
  const char* name = nullptr;
  const CUresult result = call.driver().cuKernelGetName(&name, kernel);
  cuKernelGetNameReply reply;
  if (result == CUDA_SUCCESS && name != nullptr) reply.name = name;
  call.Finish(result, reply);
}

// Name and layout together: what a client asks about a kernel that came from an enumeration.
void Do_cuKernelGetParamInfo(CallContext& call, const cuKernelGetParamInfoRequest& request) {
  CUkernel kernel = call.Use<CUkernel>(request.kernel);
  if (!call.ok()) return call.Finish(call.error());
  CUresult result = CUDA_SUCCESS;
  const KernelLayout* layout = call.worker().parts().layouts().Find(request.kernel, &result);
  if (layout == nullptr) return call.Finish(result);
  const char* name = nullptr;
  if (call.driver().cuKernelGetName != nullptr) result = call.driver().cuKernelGetName(&name, kernel);
  cuKernelGetParamInfoReply reply;
  if (result == CUDA_SUCCESS && name != nullptr) reply.name = name;
  layout->Describe(&reply);
  call.Finish(result, reply);
}

// A function that both processors can call is code of this process, which the client cannot call: not finding one is all
// that can be answered.
void Do_cuLibraryGetUnifiedFunction(CallContext& call, const cuLibraryGetUnifiedFunctionRequest& request) {
  if (call.driver().cuLibraryGetUnifiedFunction == nullptr) return call.Finish(MissingEntry("cuLibraryGetUnifiedFunction"));
  CUlibrary library = call.Use<CUlibrary>(request.library);
  if (!call.ok()) return call.Finish(call.error());
  void* function = nullptr;
  const CUresult result = call.driver().cuLibraryGetUnifiedFunction(&function, library, std::string(request.symbol).c_str());
  call.Finish(result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result);
}

}  // namespace tessera
