// cuGetProcAddress: names to functions. The newest form that the asked-for version allows is what cuda.h maps the plain
// name to; forms for per-thread default streams do not exist here.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "server/emulator/driver/core/state.h"

using namespace tessera::emulator;

namespace {

// Finds `name` in this library, whatever else the process has loaded.
void* Lookup(const std::string& name) {
  static void* self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&GetDriver), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  if (self == nullptr) return nullptr;
  void* found = dlsym(self, name.c_str());
  Dl_info mine, other;
  dladdr(reinterpret_cast<void*>(&GetDriver), &mine);
  return found != nullptr && dladdr(found, &other) != 0 && other.dli_fbase == mine.dli_fbase ? found : nullptr;
}

struct Introduced {
  const char* name;
  int version;
};

// Suffixed forms newer than 4.0, which older callers must not get: their parameters differ.
constexpr Introduced kForms[] = {
    {"cuCtxCreate_v3", 11040},
    {"cuCtxCreate_v4", 12050},
    {"cuCtxGetDevice_v2", 13000},
    {"cuCtxSynchronize_v2", 13000},
    {"cuStreamGetCtx_v2", 12050},
    {"cuStreamBeginCapture_v2", 10010},
    {"cuStreamGetCaptureInfo_v2", 11030},
    {"cuStreamGetCaptureInfo_v3", 12030},
    {"cuStreamUpdateCaptureDependencies_v2", 12030},
    {"cuEventElapsedTime_v2", 12080},
    {"cuGraphInstantiate_v2", 11000},
    {"cuGraphGetEdges_v2", 12030},
    {"cuGraphNodeGetDependencies_v2", 12030},
    {"cuGraphNodeGetDependentNodes_v2", 12030},
    {"cuGraphAddDependencies_v2", 12030},
    {"cuGraphRemoveDependencies_v2", 12030},
    {"cuGraphAddNode_v2", 12030},
    {"cuGraphExecUpdate_v2", 12000},
    {"cuGraphAddKernelNode_v2", 12000},
    {"cuGraphKernelNodeGetParams_v2", 12000},
    {"cuGraphKernelNodeSetParams_v2", 12000},
    {"cuGraphExecKernelNodeSetParams_v2", 12000},
    {"cuGetProcAddress_v2", 12000},
    {"cuStreamWaitValue32_v2", 11070},
    {"cuStreamWaitValue64_v2", 11070},
    {"cuStreamWriteValue32_v2", 11070},
    {"cuStreamWriteValue64_v2", 11070},
    {"cuStreamBatchMemOp_v2", 11070},
    {"cuDeviceGetUuid_v2", 11040},
    {"cuDevicePrimaryCtxRelease_v2", 11000},
    {"cuDevicePrimaryCtxReset_v2", 11000},
    {"cuDevicePrimaryCtxSetFlags_v2", 11000},
    {"cuMemHostRegister_v2", 6050},
    {"cuLinkCreate_v2", 6050},
    {"cuLinkAddData_v2", 6050},
    {"cuLinkAddFile_v2", 6050},
};

int VersionOf(const std::string& name) {
  for (const Introduced& form : kForms) {
    if (name == form.name) return form.version;
  }
  return 4000;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
  RETURN_IF(symbol == nullptr || pfn == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pfn = nullptr;
  bool exists = false;
  if (*symbol != 0 && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) == 0) {
    for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
      const std::string name = std::string(symbol) + suffix;
      void* function = Lookup(name);
      if (function == nullptr) continue;
      exists = true;
      if (*suffix != 0 && VersionOf(name) > cudaVersion) continue;
      *pfn = function;
      break;
    }
  }
  if (symbolStatus != nullptr) {
    *symbolStatus = *pfn != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
                    : exists        ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                    : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  RETURN_ON_ERROR(cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, nullptr));
  return *pfn != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  RETURN_IF(ppExportTable == nullptr || pExportTableId == nullptr, CUDA_ERROR_INVALID_VALUE);
  *ppExportTable = nullptr;
  return CUDA_ERROR_INVALID_VALUE;  // as the driver answers for a table it does not have
}

}  // extern "C"
