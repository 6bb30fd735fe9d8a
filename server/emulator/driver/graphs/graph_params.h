// Parameters of graph nodes: from and to the structures of cuda.h, and the rules for changing an instantiated node.
#pragma once

#include "server/emulator/driver/graphs/graph.h"

namespace tessera::emulator {

// Makes the command of a node. `current` is the calling thread's context, used where the parameters name none.
CUresult MakeKernelNode(const ContextPtr& current, const CUDA_KERNEL_NODE_PARAMS& params, CommandPtr* command);
CUresult MakeCopyNode(const ContextPtr& current, const CUDA_MEMCPY3D& params, CUcontext context, CommandPtr* command);
CUresult MakeSetNode(const ContextPtr& current, const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context, CommandPtr* command);
CUresult MakeHostNode(const CUDA_HOST_NODE_PARAMS& params, CommandPtr* command);
CUresult MakeEventNode(CUgraphNodeType type, CUevent event, CommandPtr* command);
CUresult MakeMemOpNode(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, CommandPtr* command);
// Whichever of the above `params` is for; children excepted.
CUresult MakeNode(const ContextPtr& current, const CUgraphNodeParams& params, CommandPtr* command);

// Parameters of the first forms, which know no CUkernel and no context.
CUDA_KERNEL_NODE_PARAMS WithoutContext(const CUDA_KERNEL_NODE_PARAMS_v1& params);

// CUDA_ERROR_INVALID_VALUE (natively too) when an instantiated node may not go from one to the other.
CUresult CheckExecChange(const Command& from, const Command& to);

}  // namespace tessera::emulator
