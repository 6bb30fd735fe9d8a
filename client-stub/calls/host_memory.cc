// Pinned and registered host memory.

#include <cuda.h>

#include <atomic>

#include "client-stub/client_memory.h"
#include "client-stub/session.h"
#include "client-stub/thread_state.h"
#include "generated/client/host_memory.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr unsigned kAllocFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

template <typename Request>
CUresult Allocate(Call& call, void** pp, size_t bytes, unsigned flags) {
  if (!call.ok()) return call.result();
  if (pp == nullptr || (flags & ~kAllocFlags) != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (bytes == 0) {  // succeeds with a null pointer
    *pp = nullptr;
    return CUDA_SUCCESS;
  }
  HostMemory& memory = ClientMemory::Of(call.session()).host();
  HostMemory::Placed placed;
  if (const CUresult result = memory.Place(call.context(), bytes, &placed); result != CUDA_SUCCESS) {
    return call.Fail(result);
  }
  if (placed.segment != 0) {
    Request request;
    request.segment = placed.segment;
    request.address = placed.segment_range.base;
    request.segment_bytes = placed.segment_range.bytes;
    if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) {
      memory.Abandon(placed);
      return result;
    }
  }
  // All pinned memory is mapped for the device, and the driver reports it so.
  memory.Commit(placed, bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP, call.thread().current()->device, call.context());
  *pp = reinterpret_cast<void*>(placed.block.base);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuMemAllocHost_v2(Call& call, void** pp, size_t bytesize) {
  return Allocate<cuMemAllocHost_v2Request>(call, pp, bytesize, 0);
}

CUresult Custom_cuMemHostAlloc(Call& call, void** pp, size_t bytesize, unsigned int Flags) {
  return Allocate<cuMemHostAllocRequest>(call, pp, bytesize, Flags);
}

CUresult Custom_cuMemFreeHost(Call& call, void* p) {
  if (!call.ok() || p == nullptr) return call.result();  // freeing nothing succeeds
  HostMemory& memory = ClientMemory::Of(call.session()).host();
  const auto address = reinterpret_cast<uint64_t>(p);
  cuMemFreeHostRequest request;
  if (const CUresult result = memory.BeginFree(address, &request.segment); result != CUDA_SUCCESS) {
    return call.Fail(result);
  }
  cuMemFreeHostReply reply;
  const CUresult result = call.Sync(request, &reply);
  memory.EndFree(address, result == CUDA_SUCCESS && reply.idle);
  return result;
}

CUresult Custom_cuMemHostGetDevicePointer_v2(Call& call, CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  if (!call.ok()) return call.result();
  if (pdptr == nullptr || p == nullptr || Flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const auto block = ClientMemory::Of(call.session()).host().Find(reinterpret_cast<uint64_t>(p));
  if (!block) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (block->registered) {
    // The memory is private to this process: no kernel on the server can reach it.
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) {
      LogWarning("registered host memory has no device pointer when forwarded: allocate it with cuMemHostAlloc instead");
    }
    return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  }
  *pdptr = reinterpret_cast<uint64_t>(p);
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemHostGetFlags(Call& call, unsigned int* pFlags, void* p) {
  if (!call.ok()) return call.result();
  if (pFlags == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const auto block = ClientMemory::Of(call.session()).host().Find(reinterpret_cast<uint64_t>(p));
  if (!block) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *pFlags = block->flags;
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemHostRegister_v2(Call& call, void* p, size_t bytesize, unsigned int Flags) {
  if (!call.ok()) return call.result();
  const auto address = reinterpret_cast<uint64_t>(p);
  if (address == 0 || bytesize == 0 || (Flags & ~kRegisterFlags) != 0 || bytesize > UINT64_MAX - address) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);  // no device to reach it
  ClientMemory& memory = ClientMemory::Of(call.session());
  if (memory.Classify(address, bytesize) == Place::kDevice) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const CUresult result =
      memory.host().Register(Range{address, bytesize}, (Flags & CU_MEMHOSTREGISTER_PORTABLE) | CU_MEMHOSTALLOC_DEVICEMAP,
                             call.thread().current()->device, call.context());
  return result == CUDA_SUCCESS ? result : call.Fail(result);
}

// Copies of registered memory have read or written it when their call returns, so nothing can still use it here.
CUresult Custom_cuMemHostUnregister(Call& call, void* p) {
  if (!call.ok()) return call.result();
  if (p == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const CUresult result = ClientMemory::Of(call.session()).host().Unregister(reinterpret_cast<uint64_t>(p));
  return result == CUDA_SUCCESS ? result : call.Fail(result);
}

}  // namespace tessera
