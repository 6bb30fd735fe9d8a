// Device memory: allocation, free, address ranges.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/host_pool_calls.h"
#include "client-stub/session/context.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/sharing/share_token.h"
#include "generated/client/memory.h"
#include "generated/messages/host_memory.h"

namespace tessera {
namespace {

void Remember(Call& call, uint64_t address, uint64_t bytes) {
  DeviceAllocation allocation;
  allocation.range = Range{address, bytes};
  allocation.kind = DeviceAllocation::Kind::kBlock;
  allocation.device = call.thread().current()->device;
  allocation.context = call.owner_context();
  call.session().memory().device().Add(allocation);
}

// Its pages here go at once; the server waits for the work that may use it.
CUresult FreeManaged(Call& call, CUdeviceptr dptr) {
  ManagedMemory& managed = ManagedMemory::Of(call.session());
  ManagedMemory::Removed removed;
  if (!managed.Remove(dptr, &removed)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  call.session().memory().device().Remove(dptr);
  cuMemFree_v2Request request;
  request.dptr = removed.freed_by;
  if (removed.freed_by != 0) return call.Sync(request);
  // Of a span, which others use: this waits as the free of a block does, and frees nothing.
  cuMemFreeHostReply reply;
  const CUresult result = call.SyncAs(cuMemFreeHostRequest{}, &reply);
  // While a stream captures nothing is known; a later free will know.
  if (result != CUDA_SUCCESS || !reply.idle) return result;
  for (const uint64_t span : managed.EndFrees(removed.number)) {
    request.dptr = span;
    call.Sync(request);
  }
  return result;
}

}  // namespace

CUresult Custom_cuMemAlloc_v2(Call& call, CUdeviceptr* dptr, size_t bytesize) {
  if (!call.ok()) return call.result();
  if (dptr == nullptr || bytesize == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  TellClosedDescriptors();
  cuMemAlloc_v2Request request;
  request.bytesize = bytesize;
  cuMemAlloc_v2Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  Remember(call, reply.dptr, bytesize);
  *dptr = reply.dptr;
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemAllocPitch_v2(Call& call, CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                                   unsigned int ElementSizeBytes) {
  if (!call.ok()) return call.result();
  if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 || Height == 0 ||
      (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  TellClosedDescriptors();
  cuMemAllocPitch_v2Request request;
  request.WidthInBytes = WidthInBytes;
  request.Height = Height;
  request.ElementSizeBytes = ElementSizeBytes;
  cuMemAllocPitch_v2Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  Remember(call, reply.dptr, reply.pPitch * Height);
  *dptr = reply.dptr;
  *pPitch = reply.pPitch;
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemFree_v2(Call& call, CUdeviceptr dptr) {
  if (!call.ok() || dptr == 0) return call.result();  // freeing nothing succeeds
  // Without a context memory is freed, but not while one is current that is gone (driver 580).
  if (const Context* current = call.thread().current(); current != nullptr && !current->active()) {
    return call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }
  DeviceMemory& memory = call.session().memory().device();
  const auto allocation = memory.Find(dptr);
  using Kind = DeviceAllocation::Kind;
  if (allocation && allocation->kind == Kind::kManaged) return FreeManaged(call, dptr);
  if (call.session().memory().host().InWindow(dptr)) return Pools(call).FreeNow(call, dptr);
  if (!allocation || allocation->range.base != dptr ||
      (allocation->kind != Kind::kBlock && allocation->kind != Kind::kPool && allocation->kind != Kind::kGraph)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  // The address of graph memory stays the graph's: the next launch allocates there again.
  if (allocation->kind != Kind::kGraph && !memory.Remove(dptr)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);  // another thread frees it at this moment
  }
  cuMemFree_v2Request request;
  request.dptr = dptr;
  return call.Sync(request);
}

CUresult Custom_cuMemGetAddressRange_v2(Call& call, CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  if (!call.ok()) return call.result();
  ClientMemory& memory = call.session().memory();
  Range range;
  if (const auto allocation = memory.device().Find(dptr)) {
    range = allocation->range;
  } else if (const auto block = memory.host().Find(dptr); block && (!block->mapped || block->shared)) {
    range = block->range;
  } else {
    return call.Fail(CUDA_ERROR_NOT_FOUND);
  }
  if (pbase != nullptr) *pbase = range.base;
  if (psize != nullptr) *psize = range.bytes;
  return CUDA_SUCCESS;
}

}  // namespace tessera
