// Calls on physical memory on the host as the application makes them: checks and codes as the driver has them, then
// host_allocations.h. The bodies in calls/ come here when a location, a handle or an address says that the server's driver has no
// part in it. Arguments as of the driver's calls. Calling thread only.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "client-stub/memory/host_allocations.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

HostAllocations& Allocations(BasicCall& call);

CUresult CreateHostAllocation(BasicCall& call, CUmemGenericAllocationHandle* handle, size_t bytes,
                              const CUmemAllocationProp& properties, unsigned long long flags);
// All memory of a host is handed out in such units.
CUresult HostGranularity(BasicCall& call, size_t* granularity, CUmemAllocationGranularity_flags option);

CUresult MapHostAllocation(BasicCall& call, const Range& range, size_t offset, HandleId handle, unsigned long long flags);
// As cuMemSetAccess, for a range with mapped memory of the host. Memory of devices may lie beside it.
CUresult SetMixedAccess(BasicCall& call, const Range& range, const CUmemAccessDesc* accesses, size_t count);

CUresult ExportHostAllocation(BasicCall& call, void* handle, HandleId allocation);
CUresult ImportHostAllocation(BasicCall& call, CUmemGenericAllocationHandle* handle, HostFile file);

}  // namespace tessera
