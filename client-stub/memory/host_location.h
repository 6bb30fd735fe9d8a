// Locations on the host, and access to memory there, as the driver has them (CUDA driver API, CUmemLocation). Any thread.
#pragma once

#include <cuda.h>

namespace tessera {

// Whether it is a location of the host, with a NUMA node or without.
bool IsHostLocation(const CUmemLocation& location);
// Whether access can be given to it and it does not depend on the calling thread.
bool IsNodeOrHost(const CUmemLocation& location);
// NUMA nodes as Linux numbers them; a system without NUMA has node 0 (CUDA driver API, cuMemCreate).
bool IsNode(int node);
// One of the accesses that there are.
bool IsAccess(CUmemAccess_flags flags);

}  // namespace tessera
