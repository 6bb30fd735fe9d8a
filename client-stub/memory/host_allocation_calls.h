// The application's calls on physical memory on the host: the driver's checks and codes, then host_allocations.h. The bodies in
// calls/ come here when a location, a handle or an address shows that the server's driver has no part in the call. Arguments are
// those of the driver's calls. Calling thread only.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "client-stub/memory/host_allocations.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

HostAllocations& Allocations(BasicCall& call);

CUresult CreateHostAllocation(BasicCall& call, CUmemGenericAllocationHandle* handle, size_t bytes,
                              const CUmemAllocationProp& properties, unsigned long long flags);
// The unit in which all memory of a host is handed out.
CUresult HostGranularity(BasicCall& call, size_t* granularity, CUmemAllocationGranularity_flags option);

CUresult MapHostAllocation(BasicCall& call, const Range& range, size_t offset, HandleId handle, unsigned long long flags);
// As cuMemSetAccess, for a range with mapped memory of the host. Memory of devices may lie beside it.
CUresult SetMixedAccess(BasicCall& call, const Range& range, const CUmemAccessDesc* accesses, size_t count);

CUresult ExportHostAllocation(BasicCall& call, void* handle, HandleId allocation);
CUresult ImportHostAllocation(BasicCall& call, CUmemGenericAllocationHandle* handle, HostFile file);

}  // namespace tessera
