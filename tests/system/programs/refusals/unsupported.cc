// Features that forwarding has not: each says CUDA_ERROR_NOT_SUPPORTED, whatever it is asked with.
#include <cudaProfiler.h>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kUnsupported = CUDA_ERROR_NOT_SUPPORTED;

CUresult CoreDump(CUcoredumpSettings setting) {
  bool on = true;
  size_t bytes = sizeof(on);
  return cuCoredumpSetAttributeGlobal(setting, &on, &bytes);
}

const Row kRows[] = {
    {"cuProfilerInitialize: any configuration", "calls/profiler.cc", kUnsupported,
     [] { return cuProfilerInitialize("a", "b", CU_OUT_CSV); }},
    {"cuCoredumpSetAttributeGlobal: enabled", "process/coredump_settings.cc", CUDA_SUCCESS,
     [] { return CoreDump(CU_COREDUMP_ENABLE_ON_EXCEPTION); }, kOwnProcess, kUnsupported, "README.md"},
    {"cuImportExternalMemory: a file that is none", "protocol/spec/external.toml", CUDA_ERROR_UNKNOWN,
     [] {
       CUDA_EXTERNAL_MEMORY_HANDLE_DESC d{};
       d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
       d.handle.fd = -1;
       d.size = 4096;
       CUexternalMemory m;
       return cuImportExternalMemory(&m, &d);
     },
     0, kUnsupported, "README.md"},
    {"cuImportExternalSemaphore: a file that is none", "protocol/spec/external.toml", CUDA_ERROR_UNKNOWN,
     [] {
       CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d{};
       d.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
       d.handle.fd = -1;
       CUexternalSemaphore s;
       return cuImportExternalSemaphore(&s, &d);
     },
     0, kUnsupported, "README.md"},
    {"cuDestroyExternalMemory: null", "protocol/spec/external.toml", CUDA_ERROR_INVALID_VALUE,
     [] { return cuDestroyExternalMemory(nullptr); }, 0, kUnsupported, "README.md"},
    {"cuDestroyExternalSemaphore: null", "protocol/spec/external.toml", CUDA_ERROR_INVALID_VALUE,
     [] { return cuDestroyExternalSemaphore(nullptr); }, 0, kUnsupported, "README.md"},
    {"cuGraphicsUnregisterResource: null", "protocol/spec/unsupported.toml", CUDA_ERROR_INVALID_HANDLE,
     [] { return cuGraphicsUnregisterResource(nullptr); }, 0, kUnsupported, "README.md"},
    {"cuGraphicsMapResources: null", "protocol/spec/unsupported.toml", CUDA_ERROR_INVALID_HANDLE,
     [] {
       CUgraphicsResource r = nullptr;
       return cuGraphicsMapResources(1, &r, nullptr);
     },
     0, kUnsupported, "README.md"},
    {"cuFlushGPUDirectRDMAWrites: to the owner", "protocol/spec/external.toml", CUDA_SUCCESS,
     [] {
       return cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                         CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
     },
     0, kUnsupported, "README.md"},
    {"cuMemGetHandleForAddressRange: a block", "protocol/spec", CUDA_SUCCESS,
     [] {
       Block b(kMapped);
       int fd = -1;
       return cuMemGetHandleForAddressRange(&fd, b, kMapped, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
     },
     0, kUnsupported, "README.md"},
};

}  // namespace

std::span<const Row> UnsupportedRows() { return kRows; }

}  // namespace refusals
