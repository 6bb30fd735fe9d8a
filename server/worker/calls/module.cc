// Modules: loading, unloading, functions, globals; the linker; blobs that carry images.

#include <cuda.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "generated/driver_table.h"
#include "generated/messages/module.h"
#include "generated/messages/service.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/code/image_charge.h"
#include "server/worker/code/image_load.h"
#include "server/worker/code/managed_variable.h"
#include "server/worker/code/module_references.h"
#include "server/worker/driver_slot.h"
#include "server/worker/streams/stream_visits.h"

namespace tessera {
namespace {

constexpr uint32_t kFunctionsMax = 1 << 16;  // of one module in one enumeration; cuBLASLt's largest has some thousands

// The function through which runtimes before CUDA 12 load what nvcc embedded, wrapper and prelinked members: slot 1 of table
// 6BD5FB6C-5BF4-E74A-8987-D93912FD9DF9. The public functions take no wrapper (driver 580: CUDA_ERROR_INVALID_IMAGE); those
// of a driver without the table, the emulator, do.
CUresult LoadWrapped(const DriverTable& driver, CUmodule* module, const void* wrapper) {
  constexpr CUuuid kTable = {{0x6b, char(0xd5), char(0xfb), 0x6c, 0x5b, char(0xf4), char(0xe7), 0x4a, char(0x89), char(0x87),
                              char(0xd9), 0x39, 0x12, char(0xfd), char(0x9d), char(0xf9)}};
  using Load = CUresult (*)(CUmodule*, const void*);
  const auto load = reinterpret_cast<Load>(const_cast<void*>(DriverSlot(driver, kTable, 1)));
  return load != nullptr ? load(module, wrapper) : driver.cuModuleLoadFatBinary(module, wrapper);
}

template <typename Reply, typename Request>
void LoadModule(CallContext& call, const Request& request) {
  ImageLoad<Reply> load(call, request);
  if (load.image == nullptr) return;
  call.worker().parts().stream_visits().Settle();
  CUmodule module = nullptr;
  const CUresult result = LoadCharged(call, *load.image, request.module, [&] {
    if (std::is_same_v<Request, cuModuleLoadFatBinaryRequest> && load.image->wrapped()) {
      return LoadWrapped(call.driver(), &module, load.image->data());
    }
    return call.driver().cuModuleLoadDataEx(&module, load.image->data(), load.options.count(), load.options.options(),
                                            load.options.values());
  });
  if (result == CUDA_SUCCESS) call.New(request.module, module);
  load.Finish(call, result, request.module, false);
}

}  // namespace

void Do_cuModuleLoad(CallContext& call, const cuModuleLoadRequest& request) { LoadModule<cuModuleLoadReply>(call, request); }
void Do_cuModuleLoadData(CallContext& call, const cuModuleLoadDataRequest& request) {
  LoadModule<cuModuleLoadDataReply>(call, request);
}
void Do_cuModuleLoadDataEx(CallContext& call, const cuModuleLoadDataExRequest& request) {
  LoadModule<cuModuleLoadDataExReply>(call, request);
}
void Do_cuModuleLoadFatBinary(CallContext& call, const cuModuleLoadFatBinaryRequest& request) {
  LoadModule<cuModuleLoadFatBinaryReply>(call, request);
}

void Do_cuModuleUnload(CallContext& call, const cuModuleUnloadRequest& request) {
  CUmodule module = call.Use<CUmodule>(request.hmod);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuModuleUnload(module);
  if (result == CUDA_SUCCESS) {
    DropFunctions(call, request.functions);
    for (HandleId reference : call.worker().parts().module_references().Take(request.hmod)) call.Free(reference);
    call.Free(request.hmod);
    call.worker().parts().loaded_images().Drop(request.hmod);
  }
  call.Finish(result);
}

void Do_cuModuleGetFunction(CallContext& call, const cuModuleGetFunctionRequest& request) {
  CUmodule module = call.Use<CUmodule>(request.module);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().parts().stream_visits().Settle();
  CUfunction function = nullptr;
  CUresult result = call.driver().cuModuleGetFunction(&function, module, std::string(request.name).c_str());
  cuModuleGetFunctionReply reply;
  if (result == CUDA_SUCCESS) {
    call.New(request.function, function);
    const KernelLayout* layout = call.worker().parts().layouts().Find(request.function, &result);
    if (layout != nullptr) layout->Describe(&reply);
  }
  call.Finish(result, reply);
}

void Do_cuModuleEnumerateFunctions(CallContext& call, const cuModuleEnumerateFunctionsRequest& request) {
  CUmodule module = call.Use<CUmodule>(request.module);
  if (!call.ok()) return call.Finish(call.error());
  unsigned count = 0;
  CUresult result = call.driver().cuModuleGetFunctionCount(&count, module);
  count = std::min({count, request.capacity, kFunctionsMax});
  std::vector<CUfunction> functions(count);
  if (result == CUDA_SUCCESS) result = call.driver().cuModuleEnumerateFunctions(functions.data(), count, module);
  cuModuleEnumerateFunctionsReply reply;
  if (result == CUDA_SUCCESS) {
    HandleId* handles = reply.functions.Allocate(count);
    for (unsigned i = 0; i < count; ++i) handles[i] = call.Known(HandleKind::kFunction, functions[i]);
  }
  call.Finish(result, reply);
}

void Do_cuModuleGetGlobal_v2(CallContext& call, const cuModuleGetGlobal_v2Request& request) {
  CUmodule module = call.Use<CUmodule>(request.module);
  if (!call.ok()) return call.Finish(call.error());
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const CUresult result = call.driver().cuModuleGetGlobal_v2(&address, &bytes, module, std::string(request.name).c_str());
  cuModuleGetGlobal_v2Reply reply;
  reply.address = address;
  reply.bytes = bytes;
  reply.managed = result == CUDA_SUCCESS && IsManagedVariable(call.driver(), address);
  call.Finish(result, reply);
}

void Do_tesseraBlobName(CallContext& call, const tesseraBlobNameRequest& request) {
  ImageKey key;
  if (request.key.size() != key.bytes.size()) return call.Malformed();
  std::copy(request.key.begin(), request.key.end(), key.bytes.begin());
  if (!call.worker().parts().blobs().Name(request.blob, request.total_bytes, key)) return call.Malformed();
  call.Finish(CUDA_SUCCESS);
}

void Do_tesseraBlobWrite(CallContext& call, const tesseraBlobWriteRequest& request) {
  if (!call.worker().parts().blobs().Write(request.blob, request.offset, request.total_bytes, request.data)) {
    return call.Malformed();
  }
  call.Finish(CUDA_SUCCESS);
}

void Do_tesseraBlobRead(CallContext& call, const tesseraBlobReadRequest& request) {
  std::vector<std::byte> bytes;
  if (!call.worker().parts().blobs().Read(request.blob, request.offset, request.length, &bytes)) {
    return call.Malformed();
  }
  tesseraBlobReadReply reply;
  reply.data = bytes;
  call.Finish(CUDA_SUCCESS, reply);
}

void Do_tesseraBlobRelease(CallContext& call, const tesseraBlobReleaseRequest& request) {
  call.worker().parts().blobs().Release(request.blob);
  call.Finish(CUDA_SUCCESS);
}

}  // namespace tessera
