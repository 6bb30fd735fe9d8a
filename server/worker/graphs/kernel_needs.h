// What the kernels of graphs need of local memory (memory/local_memory.h), beyond what contexts have of their own. Executor and
// helper threads; the record's context is current afterwards.
#pragma once

#include <cuda.h>

#include "server/worker/call_context.h"
#include "server/worker/memory/local_memory.h"

namespace tessera {

// Of a graph, with those embedded in it and the bodies of its conditional nodes. A kernel whose context the driver does not tell
// runs in the record's.
LocalNeeds NeedsOfGraph(CallContext& call, CUgraph graph);
// Of a kernel node with these parameters.
LocalNeeds NeedsOfKernel(CallContext& call, const CUDA_KERNEL_NODE_PARAMS& params);

}  // namespace tessera
