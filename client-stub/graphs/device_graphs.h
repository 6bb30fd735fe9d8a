// Makes and destroys the handles of executable graphs, as the application sees them (device_graph_table.h). Calling thread only.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-stub/call/call.h"
#include "client-stub/session/device_graph_table.h"

namespace tessera {

// Returns an id for a new executable graph. It never equals the handle of a device graph: a call could not tell the two apart.
HandleId MintGraphExec(Call& call);

// Writes the application's handle of the new instance `exec` to `out`. `device_graph` is the driver's handle of a graph that
// kernels launch; 0: kernels do not launch it. If another graph of this process has that handle already, the new instance is
// destroyed and the call fails with CUDA_ERROR_NOT_SUPPORTED.
CUresult StoreGraphExec(Call& call, HandleId exec, uint64_t device_graph, CUgraphExec* out);

// cuGraphExecDestroy of an instance for which DeviceGraphs::WaitsToEnd() is true. Returns when the server has destroyed it. For
// that the driver waits until the GPU has done all work that it was given (measured).
CUresult DestroyDeviceGraph(Call& call, CUgraphExec handle);

}  // namespace tessera
