// Where pools are made, and who may use them. Pools of device memory are the server's driver's, those of host memory are made
// here (host_pool_calls.h).

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/memory/host_location.h"
#include "client-stub/memory/host_pool_calls.h"
#include "client-stub/session/session.h"
#include "generated/client/pool.h"

namespace tessera {
namespace {

// The pool that a location has: as natively the current one, where none was set the default.
template <typename Request, typename Reply>
CUresult PoolOfLocation(Call& call, CUmemoryPool* pool, const CUmemLocation* location, CUmemAllocationType type, bool current,
                        HandleId Reply::*field) {
  if (!call.ok()) return call.result();
  if (pool == nullptr || location == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (IsHostLocation(*location)) return HostPoolOf(call, pool, *location, type, current);
  Request request;
  request.location = call.DeviceNumbers(*location);
  request.type = type;
  if (!call.ok()) return call.result();
  Reply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  call.Adopt(reply.*field);
  *pool = reinterpret_cast<CUmemoryPool>((reply.*field).value());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuMemPoolCreate(Call& call, CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  if (!call.ok()) return call.result();
  if (pool == nullptr || poolProps == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) return RefuseManagedPool(call);
  if (IsHostLocation(poolProps->location)) return CreateHostPool(call, pool, *poolProps);
  cuMemPoolCreateRequest request;
  request.pool = call.Mint(HandleKind::kMemoryPool);
  request.poolProps = call.DeviceNumbers(*poolProps);
  if (!call.ok()) return call.result();
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) *pool = reinterpret_cast<CUmemoryPool>(request.pool.value());
  return result;
}

CUresult Custom_cuMemPoolDestroy(Call& call, CUmemoryPool pool) {
  cuMemPoolDestroyRequest request;
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  if (!call.ok()) return call.result();
  if (Pools(call).Has(request.pool)) return DestroyHostPool(call, request.pool);
  request.pool = call.Free(HandleKind::kMemoryPool, pool);
  return call.Sync(request);
}

CUresult Custom_cuMemPoolTrimTo(Call& call, CUmemoryPool pool, size_t minBytesToKeep) {
  cuMemPoolTrimToRequest request;
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  if (!call.ok()) return call.result();
  if (Pools(call).Has(request.pool)) {
    Pools(call).Trim(call, request.pool, minBytesToKeep);
    return CUDA_SUCCESS;
  }
  request.minBytesToKeep = minBytesToKeep;
  return call.Sync(request);
}

CUresult Custom_cuMemPoolSetAccess(Call& call, CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  cuMemPoolSetAccessRequest request;
  if (call.ok() && map == nullptr && count != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  if (!call.ok()) return call.result();
  if (Pools(call).Has(request.pool)) return SetHostPoolAccess(call, request.pool, map, count);
  CUmemAccessDesc* const numbered = request.map.Allocate(count);
  for (size_t i = 0; i < count; ++i) numbered[i] = call.DeviceNumbers(map[i]);
  request.count = count;
  if (!call.ok()) return call.result();
  return call.Sync(request);
}

CUresult Custom_cuMemPoolGetAccess(Call& call, CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
  if (!call.ok()) return call.result();
  if (flags == nullptr || location == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuMemPoolGetAccessRequest request;
  request.memPool = call.Use(HandleKind::kMemoryPool, memPool);
  if (!call.ok()) return call.result();
  if (Pools(call).Has(request.memPool)) return GetHostPoolAccess(call, request.memPool, *location, flags);
  request.location = call.DeviceNumbers(*location);
  if (!call.ok()) return call.result();
  cuMemPoolGetAccessReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *flags = reply.flags;
  return result;
}

CUresult Custom_cuMemGetDefaultMemPool(Call& call, CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
  return PoolOfLocation<cuMemGetDefaultMemPoolRequest, cuMemGetDefaultMemPoolReply>(call, pool_out, location, type, false,
                                                                                    &cuMemGetDefaultMemPoolReply::pool_out);
}

CUresult Custom_cuMemGetMemPool(Call& call, CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  return PoolOfLocation<cuMemGetMemPoolRequest, cuMemGetMemPoolReply>(call, pool, location, type, true,
                                                                      &cuMemGetMemPoolReply::pool);
}

// A device's pool is of its own memory: the server refuses handles that it does not know, those of pools on the host.
CUresult Custom_cuMemSetMemPool(Call& call, CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  if (!call.ok()) return call.result();
  if (location == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuMemSetMemPoolRequest request;
  request.pool = call.Use(HandleKind::kMemoryPool, pool);
  if (!call.ok()) return call.result();
  if (IsHostLocation(*location)) return SetHostPoolOf(call, *location, type, request.pool);
  request.location = call.DeviceNumbers(*location);
  request.type = type;
  if (!call.ok()) return call.result();
  return call.Sync(request);
}

}  // namespace tessera
