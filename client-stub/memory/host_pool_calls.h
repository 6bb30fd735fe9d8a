// Calls on pools of host memory as the application makes them: checks and codes as the driver has them, then host_pools.h. The
// bodies in calls/ come here when a location or a handle says that the server's driver has no part in it. Arguments as of the
// driver's calls; a handle is one that HostPools::Has(). Calling thread only.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "client-stub/memory/host_pools.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

HostPools& Pools(BasicCall& call);

// Fails the call with CUDA_ERROR_NOT_SUPPORTED, and says why once, where the two sides share no pages.
CUresult RefuseWithoutPages(BasicCall& call);
CUresult RefuseManagedPool(BasicCall& call);

CUresult CreateHostPool(BasicCall& call, CUmemoryPool* pool, const CUmemPoolProps& properties);
CUresult DestroyHostPool(BasicCall& call, HandleId pool);
// The pool that a host location has: its own, or (`current`) what was set.
CUresult HostPoolOf(BasicCall& call, CUmemoryPool* pool, const CUmemLocation& location, CUmemAllocationType type, bool current);
CUresult SetHostPoolOf(BasicCall& call, const CUmemLocation& location, CUmemAllocationType type, HandleId pool);

CUresult SetHostPoolAttribute(BasicCall& call, HandleId pool, CUmemPool_attribute attribute, const void* value);
CUresult GetHostPoolAttribute(BasicCall& call, HandleId pool, CUmemPool_attribute attribute, void* value);
CUresult SetHostPoolAccess(BasicCall& call, HandleId pool, const CUmemAccessDesc* map, size_t count);
CUresult GetHostPoolAccess(BasicCall& call, HandleId pool, const CUmemLocation& location, CUmemAccess_flags* flags);

CUresult AllocateFromHostPool(BasicCall& call, HandleId pool, size_t bytes, CUstream stream, CUdeviceptr* address);
// Of an address in the window of pinned memory.
CUresult FreeToHostPool(BasicCall& call, CUdeviceptr address, CUstream stream, bool capturing);

CUresult ExportHostPool(BasicCall& call, void* handle, HandleId pool);
CUresult ImportHostPool(BasicCall& call, CUmemoryPool* pool, HostFile file);

}  // namespace tessera
