// Locations on the host, and access to memory there, as the driver has them (CUDA driver API, CUmemLocation). Any thread.
#pragma once

#include <cuda.h>

namespace tessera {

// A location of the host, by NUMA node or not.
bool IsHostLocation(const CUmemLocation& location);
// One that access is given to, which no thread has to be asked for.
bool IsNodeOrHost(const CUmemLocation& location);
// NUMA nodes as Linux numbers them; a system without NUMA has node 0 (CUDA driver API, cuMemCreate).
bool IsNode(int node);
// One of the accesses that there are.
bool IsAccess(CUmemAccess_flags flags);

}  // namespace tessera
