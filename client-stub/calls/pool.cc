// Attributes of memory pools, and stream-ordered allocation. Of pools on the host: host_pool_calls.h.

#include <cuda.h>

#include <cstring>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/graphs/graph_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/host_pool_calls.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/capture_check.h"
#include "generated/client/pool.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// Other addresses asked for when the driver has put an allocation where this process maps something already.
constexpr int kPlacesMax = 8;

// Bytes of an attribute's value: the reuse switches are int, amounts are cuuint64_t. 0: not an attribute.
size_t AttributeBytes(CUmemPool_attribute attribute) {
  if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
      attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
    return sizeof(int);
  }
  if (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
    return sizeof(cuuint64_t);
  }
  return 0;
}

// Sends the allocation until its address is one that this process does not use. `call` is one whose parameters are those of
// cuMemFreeAsync plus what `request` has.
template <typename Request, typename Reply>
CUresult Allocate(Call& call, CUdeviceptr* dptr, const Request& request, CUstream stream, HandleId pool) {
  bool capturing = false;
  if (const CUresult legal = CheckStreamUse(call, stream, &capturing); legal != CUDA_SUCCESS) return call.Fail(legal);
  std::vector<CUdeviceptr> rejected;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  for (int attempt = 0; attempt < kPlacesMax; ++attempt) {
    Reply reply;
    result = call.Sync(request, &reply);
    if (result != CUDA_SUCCESS) break;
    DeviceAllocation allocation;
    allocation.range = Range{reply.dptr, request.bytesize};
    allocation.kind = capturing ? DeviceAllocation::Kind::kGraph : DeviceAllocation::Kind::kPool;
    if (const Context* context = call.current_context()) allocation.device = context->device;
    allocation.pool = pool;
    if (capturing) {
      allocation.sync_memops = false;  // measured
      NoteGraphMemory();
    }
    if (AdoptDriverRange(call.session(), allocation)) {
      *dptr = reply.dptr;
      break;
    }
    rejected.push_back(reply.dptr);  // kept until another place was found, so that it is not offered again
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !rejected.empty()) {
    LogWarning("{} found no device address that this process does not use itself", call.info().name);
  }
  for (const CUdeviceptr address : rejected) {
    Call free(kInfo_cuMemFreeAsync, call.per_thread_stream());
    free.MoveTo(call);
    cuMemFreeAsyncRequest free_request;
    free_request.dptr = address;
    free_request.hStream = free.UseStream(stream);
    if (free.ok()) free.Async(free_request);
  }
  return result == CUDA_SUCCESS ? result : call.Fail(result);
}

}  // namespace

CUresult Custom_cuMemPoolSetAttribute(Call& call, CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  cuMemPoolSetAttributeRequest request;
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  if (!call.ok()) return call.result();
  const size_t bytes = AttributeBytes(attr);
  if (value == nullptr || bytes == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (Pools(call).Has(request.pool)) return SetHostPoolAttribute(call, request.pool, attr, value);
  request.attribute = static_cast<uint32_t>(attr);
  std::memcpy(&request.value, value, bytes);
  return call.Sync(request);
}

CUresult Custom_cuMemPoolGetAttribute(Call& call, CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  cuMemPoolGetAttributeRequest request;
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  if (!call.ok()) return call.result();
  const size_t bytes = AttributeBytes(attr);
  if (value == nullptr || bytes == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (Pools(call).Has(request.pool)) return GetHostPoolAttribute(call, request.pool, attr, value);
  request.attribute = static_cast<uint32_t>(attr);
  cuMemPoolGetAttributeReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) std::memcpy(value, &reply.value, bytes);
  return result;
}

CUresult Custom_cuMemAllocAsync(Call& call, CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  cuMemAllocAsyncRequest request;
  request.hStream = call.UseStream(hStream);
  if (!call.ok()) return call.result();
  if (dptr == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (bytesize == 0) {  // succeeds with a null pointer
    *dptr = 0;
    return CUDA_SUCCESS;
  }
  request.bytesize = bytesize;
  return Allocate<cuMemAllocAsyncRequest, cuMemAllocAsyncReply>(call, dptr, request, hStream, HandleId());
}

CUresult Custom_cuMemAllocFromPoolAsync(Call& call, CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  cuMemAllocFromPoolAsyncRequest request;
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  request.hStream = call.UseStream(hStream);
  if (!call.ok()) return call.result();
  if (dptr == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (bytesize == 0) {
    *dptr = 0;
    return CUDA_SUCCESS;
  }
  if (Pools(call).Has(request.pool)) return AllocateFromHostPool(call, request.pool, bytesize, hStream, dptr);
  request.bytesize = bytesize;
  return Allocate<cuMemAllocFromPoolAsyncRequest, cuMemAllocFromPoolAsyncReply>(call, dptr, request, hStream, request.pool);
}

CUresult Custom_cuMemFreeAsync(Call& call, CUdeviceptr dptr, CUstream hStream) {
  cuMemFreeAsyncRequest request;
  request.hStream = call.UseStream(hStream);
  if (!call.ok() || dptr == 0) return call.result();  // freeing nothing succeeds
  DeviceMemory& memory = call.session().memory().device();
  bool capturing = false;
  if (const CUresult legal = CheckStreamUse(call, hStream, &capturing); legal != CUDA_SUCCESS) return call.Fail(legal);
  if (call.session().memory().host().InWindow(dptr)) return FreeToHostPool(call, dptr, hStream, capturing);
  const auto allocation = memory.Find(dptr);
  using Kind = DeviceAllocation::Kind;
  if (!allocation || allocation->range.base != dptr || allocation->kind == Kind::kMapped || allocation->kind == Kind::kGlobal ||
      allocation->kind == Kind::kForeign) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (allocation->kind == Kind::kManaged) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  // A free that is captured ends the allocation each time the graph runs, and the address of graph memory stays the
  // graph's: the next launch allocates there again. Whether there is something to free only the server's driver knows.
  const bool graph_memory = allocation->kind == DeviceAllocation::Kind::kGraph;
  if (!capturing && !graph_memory && !memory.Remove(dptr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  request.dptr = dptr;
  return graph_memory ? call.Sync(request) : call.Async(request);
}

}  // namespace tessera
