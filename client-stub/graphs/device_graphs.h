// Makes and ends executable graphs: their handles, as the application knows them (device_graph_table.h). Calling thread only.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-stub/call/call.h"
#include "client-stub/session/device_graph_table.h"

namespace tessera {

// The handle of a new executable graph. Its id is no handle of a device graph: it could not be named.
HandleId MintGraphExec(Call& call);

// Gives the application the handle of a graph that was instantiated as `exec`; `device_graph` is the driver's own, 0: it is not
// for launch by kernels. A device graph whose value cannot be told apart is destroyed again, and the call fails with
// CUDA_ERROR_NOT_SUPPORTED.
CUresult StoreGraphExec(Call& call, HandleId exec, uint64_t device_graph, CUgraphExec* out);

// cuGraphExecDestroy of one that WaitsToEnd(): returns when the server has destroyed it, for which the driver waits until the GPU
// has done all that it was given (measured).
CUresult DestroyDeviceGraph(Call& call, CUgraphExec handle);

}  // namespace tessera
