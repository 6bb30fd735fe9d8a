// CUDART_INTERFACE: every copy of the CUDA runtime asks for it.

#include <cuda.h>

#include <cstring>

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "client-stub/session/client.h"
#include "generated/client/module.h"

namespace tessera {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;  // image.h

struct CudartInterfaceTag {
  static constexpr const char* kName = "CUDART_INTERFACE";
  static constexpr size_t kWords = 13;
};

// Slot 1: loads a module from the wrapper of a fat binary, as nvcc embeds it. It accepts nothing else.
CUresult LoadModule(CUmodule* module, const void* wrapper) {
  uint32_t magic = 0;
  if (wrapper != nullptr) std::memcpy(&magic, wrapper, sizeof(magic));
  if (magic != kWrapperMagic) return CUDA_ERROR_INVALID_VALUE;
  return Enter_cuModuleLoadFatBinary(false, module, wrapper);  // the server loads a wrapper as this slot does
}

// Slot 2: the handle of a device's primary context, which is neither retained nor activated. The runtime compares it with what
// cuDevicePrimaryCtxRetain returns later.
CUresult PrimaryContext(CUcontext* context, CUdevice device) {
  Client& client = Client::Get();
  if (!client.initialized()) return client.NotInitialized();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Session* session = client.SessionOfDevice(device);
  if (session == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const Context* primary = session->contexts().Primary(device);
  if (primary == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *context = primary->object();
  return CUDA_SUCCESS;
}

// Slot 3: graphics devices. A driver without a display returns 708 and does not write the output.
CUresult GraphicsDevice(unsigned, void*) { return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE; }

// Slots 6 and 8 load a module as slot 1 does, slot 8 from the bare fat binary. They also take lists of symbols, which were never
// seen in use.
CUresult LoadModuleWithSymbols(CUmodule* module, const void* wrapper, void* a, void* b, unsigned count) {
  if (a != nullptr || b != nullptr || count != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return LoadModule(module, wrapper);
}
CUresult LoadFatBinary(const void* header, CUmodule* module, void* a, void* b, unsigned count) {
  if (a != nullptr || b != nullptr || count != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return Enter_cuModuleLoadFatBinary(false, module, header);
}

// Slot 7: the runtime says that it does not use a module any more. The module stays until it is unloaded.
CUresult ForgetModule(size_t) { return CUDA_SUCCESS; }

// Slot 12: loads the compilers. Nothing to do here, since the server compiles.
CUresult LoadCompilers() { return CUDA_SUCCESS; }

}  // namespace

const void* CudartInterface() {
  static HiddenTable<CudartInterfaceTag> table;
  static const void* const filled = &table.Set(1, &LoadModule)
                                         .Set(2, &PrimaryContext)
                                         .Set(3, &GraphicsDevice)
                                         .Set(6, &LoadModuleWithSymbols)
                                         .Set(7, &ForgetModule)
                                         .Set(8, &LoadFatBinary)
                                         .Set(12, &LoadCompilers);
  return filled;
}

}  // namespace tessera
