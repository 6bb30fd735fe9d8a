// Calls on physical memory on the host as the application makes them: checks and codes as the driver has them, then
// host_allocations.h. The bodies in calls/ come here when a location, a handle or an address says that the server's driver has no
// part in it. Arguments as of the driver's calls. Calling thread only.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "client-stub/call/call.h"
#include "client-stub/memory/host_allocations.h"

namespace tessera {

HostAllocations& Allocations(Call& call);

CUresult CreateHostAllocation(Call& call, CUmemGenericAllocationHandle* handle, size_t bytes,
                              const CUmemAllocationProp& properties, unsigned long long flags);
// All memory of a host is handed out in such units.
CUresult HostGranularity(Call& call, size_t* granularity, CUmemAllocationGranularity_flags option);

CUresult MapHostAllocation(Call& call, const Range& range, size_t offset, HandleId handle, unsigned long long flags);
// As cuMemSetAccess, for a range with mapped memory of the host. Memory of devices may lie beside it.
CUresult SetMixedAccess(Call& call, const Range& range, const CUmemAccessDesc* accesses, size_t count);

CUresult ExportHostAllocation(Call& call, void* handle, HandleId allocation);
CUresult ImportHostAllocation(Call& call, CUmemGenericAllocationHandle* handle, HostFile file);

}  // namespace tessera
