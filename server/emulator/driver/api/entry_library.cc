// Libraries and their kernels.
#include "protocol/base/log.h"
#include "server/emulator/driver/code/function_attributes.h"
#include "server/emulator/driver/code/module.h"
#include "server/emulator/driver/graphs/capture.h"

using namespace tessera::emulator;
using tessera::LogWarning;

namespace {

using KernelPtr = std::shared_ptr<LibraryKernel>;

CUresult FindLibrary(CUlibrary handle, LibraryPtr* library) {
  RETURN_ON_ERROR(CheckEntry());
  *library = GetDriver().libraries.Find(handle);
  return *library != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FindKernel(CUkernel handle, KernelPtr* kernel, LibraryPtr* library) {
  RETURN_ON_ERROR(CheckEntry());
  *kernel = GetDriver().kernels.Find(handle);
  *library = *kernel != nullptr ? (*kernel)->library.lock() : nullptr;
  return *library != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult Load(const Selection& selection, CUlibrary* out, JitOptions jit) {
  LibraryPtr library;
  std::string log;
  const CUresult result = Library::Load(selection, &library, &log);
  jit.WriteLogs(log, "");
  if (result != CUDA_SUCCESS) {
    LogWarning("the emulator could not load a library: {}", log);
    return result;
  }
  library->handle = reinterpret_cast<CUlibrary>(GetDriver().libraries.Mint());
  GetDriver().libraries.Put(reinterpret_cast<uint64_t>(library->handle), library);
  *out = library->handle;
  return CUDA_SUCCESS;
}

CUresult ModuleInCurrent(const LibraryPtr& library, ModulePtr* module) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return library->ModuleIn(context, module);
}

// Devices are given by number; a negative one would mean the current context's.
CUresult CheckDevice(CUdevice device) { return GetDriver().device(device) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }

}  // namespace

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(library == nullptr || code == nullptr || (numJitOptions != 0 && jitOptions == nullptr) ||
                (numLibraryOptions != 0 && libraryOptions == nullptr),
            CUDA_ERROR_INVALID_VALUE);
  JitOptions jit(numJitOptions, jitOptions, jitOptionsValues);
  Selection selection;
  std::string log;
  if (CUresult result = SelectFromMemory(code, &selection, &log); result != CUDA_SUCCESS) {
    jit.WriteLogs(log, "");
    LogWarning("the emulator could not read an image: {}", log);
    return result;
  }
  return Load(selection, library, jit);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions, void** jitOptionsValues,
                               unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                               unsigned int numLibraryOptions) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(library == nullptr || fileName == nullptr, CUDA_ERROR_INVALID_VALUE);
  Selection selection;
  std::string log;
  RETURN_ON_ERROR(SelectFromFile(fileName, &selection, &log));
  return Load(selection, library, JitOptions(numJitOptions, jitOptions, jitOptionsValues));
}

CUresult cuLibraryUnload(CUlibrary handle) {
  LibraryPtr library;
  RETURN_ON_ERROR(FindLibrary(handle, &library));
  RETURN_ON_ERROR(CheckUnsafeCall());
  for (const ContextPtr& context : GetDriver().contexts.All()) {
    if (context->active()) context->Synchronize();
  }
  RETURN_IF(GetDriver().libraries.Remove(handle) == nullptr, CUDA_ERROR_INVALID_HANDLE);
  library->Forget();
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary handle, const char* name) {
  LibraryPtr library;
  RETURN_ON_ERROR(FindLibrary(handle, &library));
  RETURN_IF(pKernel == nullptr || name == nullptr, CUDA_ERROR_INVALID_VALUE);
  const KernelPtr kernel = library->FindKernel(name);
  RETURN_IF(kernel == nullptr, CUDA_ERROR_NOT_FOUND);
  *pKernel = kernel->handle;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  LibraryPtr library;
  RETURN_ON_ERROR(FindLibrary(lib, &library));
  RETURN_IF(count == nullptr, CUDA_ERROR_INVALID_VALUE);
  *count = static_cast<unsigned>(library->kernels().size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
  LibraryPtr library;
  RETURN_ON_ERROR(FindLibrary(lib, &library));
  RETURN_IF(kernels == nullptr || numKernels == 0, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < numKernels && i < library->kernels().size(); ++i) kernels[i] = library->kernels()[i]->handle;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary handle) {
  LibraryPtr library;
  ModulePtr module;
  RETURN_ON_ERROR(FindLibrary(handle, &library));
  RETURN_IF(pMod == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(ModuleInCurrent(library, &module));
  *pMod = module->handle;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary handle, const char* name) {
  LibraryPtr library;
  ModulePtr module;
  RETURN_ON_ERROR(FindLibrary(handle, &library));
  RETURN_IF(name == nullptr || (dptr == nullptr && bytes == nullptr), CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(ModuleInCurrent(library, &module));
  uint64_t address = 0, size_bytes = 0;
  RETURN_IF(!module->FindVariable(name, &address, &size_bytes), CUDA_ERROR_NOT_FOUND);
  if (dptr != nullptr) *dptr = address;
  if (bytes != nullptr) *bytes = size_bytes;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary handle, const char* name) {
  LibraryPtr library;
  RETURN_ON_ERROR(FindLibrary(handle, &library));
  RETURN_IF(name == nullptr || (dptr == nullptr && bytes == nullptr), CUDA_ERROR_INVALID_VALUE);
  uint64_t address = 0, size_bytes = 0;
  RETURN_IF(!library->FindManaged(name, &address, &size_bytes), CUDA_ERROR_NOT_FOUND);
  if (dptr != nullptr) *dptr = address;
  if (bytes != nullptr) *bytes = size_bytes;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel handle) {
  KernelPtr kernel;
  LibraryPtr library;
  RETURN_ON_ERROR(FindKernel(handle, &kernel, &library));
  RETURN_IF(pFunc == nullptr, CUDA_ERROR_INVALID_VALUE);
  ModulePtr module;
  RETURN_ON_ERROR(ModuleInCurrent(library, &module));
  const FunctionPtr function = module->FindFunction(kernel->info.name);
  RETURN_IF(function == nullptr, CUDA_ERROR_NOT_FOUND);
  *pFunc = function->handle;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel handle) {
  KernelPtr kernel;
  LibraryPtr library;
  RETURN_ON_ERROR(FindKernel(handle, &kernel, &library));
  RETURN_IF(pLib == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pLib = library->handle;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  KernelPtr kernel;
  LibraryPtr library;
  RETURN_ON_ERROR(FindKernel(handle, &kernel, &library));
  RETURN_IF(name == nullptr, CUDA_ERROR_INVALID_VALUE);
  *name = kernel->info.name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  KernelPtr kernel;
  LibraryPtr library;
  RETURN_ON_ERROR(FindKernel(handle, &kernel, &library));
  return ParameterInfo(kernel->info, paramIndex, paramOffset, paramSize);
}

CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel handle, CUdevice dev) {
  KernelPtr kernel;
  LibraryPtr library;
  RETURN_ON_ERROR(FindKernel(handle, &kernel, &library));
  RETURN_ON_ERROR(CheckDevice(dev));
  RETURN_IF(pi == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(FunctionAttribute(kernel->info, *kernel->settings[dev], attrib, pi));
  ModulePtr module;
  if (attrib != CU_FUNC_ATTRIBUTE_BINARY_VERSION || ModuleInCurrent(library, &module) != CUDA_SUCCESS) return CUDA_SUCCESS;
  const FunctionPtr function = module->FindFunction(kernel->info.name);
  if (function != nullptr) *pi = BinaryVersion(*function);
  return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel handle, CUdevice dev) {
  KernelPtr kernel;
  LibraryPtr library;
  RETURN_ON_ERROR(FindKernel(handle, &kernel, &library));
  RETURN_ON_ERROR(CheckDevice(dev));
  return SetFunctionAttribute(kernel->info, *kernel->settings[dev], attrib, val);
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice dev) {
  KernelPtr kernel;
  LibraryPtr library;
  RETURN_ON_ERROR(FindKernel(handle, &kernel, &library));
  RETURN_ON_ERROR(CheckDevice(dev));
  return config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
