#include "server/emulator/driver/graphs/graph_params.h"

#include "server/emulator/driver/code/kernel_command.h"
#include "server/emulator/driver/core/event_commands.h"
#include "server/emulator/driver/core/mem_op.h"
#include "server/emulator/driver/memory/copy.h"

namespace tessera::emulator {
namespace {

CUresult Choose(const ContextPtr& current, CUcontext handle, ContextPtr* context) {
  *context = handle == nullptr ? current : GetDriver().contexts.Find(handle);
  return *context != nullptr && (*context)->active() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

CUresult MakeKernelNode(const ContextPtr& current, const CUDA_KERNEL_NODE_PARAMS& params, CommandPtr* command) {
  ContextPtr context;
  RETURN_ON_ERROR(Choose(current, params.ctx, &context));
  LaunchShape shape;
  shape.grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
  shape.block = {params.blockDimX, params.blockDimY, params.blockDimZ};
  shape.shared_bytes = params.sharedMemBytes;
  const CUfunction function = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
  std::shared_ptr<KernelCommand> made;
  RETURN_ON_ERROR(KernelCommand::Make(context, function, shape, params.kernelParams, params.extra, &made));
  *command = made;
  return CUDA_SUCCESS;
}

CUresult MakeCopyNode(const ContextPtr& current, const CUDA_MEMCPY3D& params, CUcontext handle, CommandPtr* command) {
  ContextPtr context;
  RETURN_ON_ERROR(Choose(current, handle, &context));
  std::shared_ptr<CopyCommand> made;
  RETURN_ON_ERROR(CopyCommand::Make(*context, params, &made));
  *command = made;
  return CUDA_SUCCESS;
}

CUresult MakeSetNode(const ContextPtr& current, const CUDA_MEMSET_NODE_PARAMS& params, CUcontext handle, CommandPtr* command) {
  ContextPtr context;
  RETURN_ON_ERROR(Choose(current, handle, &context));
  RETURN_IF(params.width == 0 || params.height == 0, CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<SetCommand> made;
  RETURN_ON_ERROR(SetCommand::Make(params, true, &made));
  *command = made;
  return CUDA_SUCCESS;
}

CUresult MakeHostNode(const CUDA_HOST_NODE_PARAMS& params, CommandPtr* command) {
  RETURN_IF(params.fn == nullptr, CUDA_ERROR_INVALID_VALUE);
  *command = std::make_shared<HostCommand>(params);
  return CUDA_SUCCESS;
}

CUresult MakeEventNode(CUgraphNodeType type, CUevent handle, CommandPtr* command) {
  const EventPtr event = GetDriver().events.Find(handle);
  RETURN_IF(event == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    *command = std::make_shared<EventRecordCommand>(event, handle);
  } else {
    *command = std::make_shared<EventWaitCommand>(event, handle);
  }
  return CUDA_SUCCESS;
}

CUresult MakeMemOpNode(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, CommandPtr* command) {
  RETURN_IF(
      params.ctx == nullptr || params.count > 256 || (params.count != 0 && params.paramArray == nullptr) || params.flags != 0,
      CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<MemOpCommand> made;
  RETURN_ON_ERROR(MemOpCommand::Make({params.paramArray, params.paramArray + params.count}, &made));
  *command = made;
  return CUDA_SUCCESS;
}

CUresult MakeNode(const ContextPtr& current, const CUgraphNodeParams& params, CommandPtr* command) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS kernel{params.kernel.func,      params.kernel.gridDimX,       params.kernel.gridDimY,
                                     params.kernel.gridDimZ,  params.kernel.blockDimX,      params.kernel.blockDimY,
                                     params.kernel.blockDimZ, params.kernel.sharedMemBytes, params.kernel.kernelParams,
                                     params.kernel.extra,     params.kernel.kern,           params.kernel.ctx};
      return MakeKernelNode(current, kernel, command);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return MakeCopyNode(current, params.memcpy.copyParams, params.memcpy.copyCtx, command);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& set = params.memset;
      return MakeSetNode(current, {set.dst, set.pitch, set.value, set.elementSize, set.width, set.height}, set.ctx, command);
    }
    case CU_GRAPH_NODE_TYPE_HOST: return MakeHostNode({params.host.fn, params.host.userData}, command);
    case CU_GRAPH_NODE_TYPE_EMPTY: *command = std::make_shared<EmptyCommand>(); return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return MakeEventNode(params.type, params.eventRecord.event, command);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return MakeEventNode(params.type, params.eventWait.event, command);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return MakeMemOpNode({params.memOp.ctx, params.memOp.count, params.memOp.paramArray, params.memOp.flags}, command);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:  // with the rest: nodes whose parameters cannot change
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CheckExecChange(const Command& from, const Command& to) {
  RETURN_IF(from.type() != to.type(), CUDA_ERROR_INVALID_VALUE);
  if (from.type() == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    RETURN_IF(
        static_cast<const MemOpCommand&>(from).operations().size() != static_cast<const MemOpCommand&>(to).operations().size(),
        CUDA_ERROR_INVALID_VALUE);
  }
  if (from.type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    RETURN_IF(static_cast<const AllocCommand&>(from).memory() != static_cast<const AllocCommand&>(to).memory(),
              CUDA_ERROR_INVALID_VALUE);
  }
  if (from.type() == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    RETURN_IF(static_cast<const GraphFreeCommand&>(from).memory() != static_cast<const GraphFreeCommand&>(to).memory(),
              CUDA_ERROR_INVALID_VALUE);
  }
  if (from.type() == CU_GRAPH_NODE_TYPE_KERNEL) {
    const auto& old_kernel = static_cast<const KernelCommand&>(from);
    const auto& new_kernel = static_cast<const KernelCommand&>(to);
    RETURN_IF(old_kernel.function()->module()->context_handle() != new_kernel.function()->module()->context_handle(),
              CUDA_ERROR_INVALID_VALUE);
  }
  if (from.type() == CU_GRAPH_NODE_TYPE_MEMCPY) {
    const auto& old_copy = static_cast<const CopyCommand&>(from);
    const auto& new_copy = static_cast<const CopyCommand&>(to);
    // The kinds of memory must stay; multi-dimensional copies must stay as they are.
    RETURN_IF(old_copy.source().is_host != new_copy.source().is_host ||
                  old_copy.destination().is_host != new_copy.destination().is_host ||
                  (old_copy.source().array == nullptr) != (new_copy.source().array == nullptr) ||
                  (old_copy.destination().array == nullptr) != (new_copy.destination().array == nullptr),
              CUDA_ERROR_INVALID_VALUE);
    const bool flat =
        old_copy.copy().Height <= 1 && old_copy.copy().Depth <= 1 && new_copy.copy().Height <= 1 && new_copy.copy().Depth <= 1;
    RETURN_IF(!flat && (old_copy.copy().Height != new_copy.copy().Height || old_copy.copy().Depth != new_copy.copy().Depth ||
                        old_copy.copy().WidthInBytes != new_copy.copy().WidthInBytes),
              CUDA_ERROR_INVALID_VALUE);
  }
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS WithoutContext(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  return {params.func,      params.gridDimX,       params.gridDimY,     params.gridDimZ, params.blockDimX, params.blockDimY,
          params.blockDimZ, params.sharedMemBytes, params.kernelParams, params.extra,    nullptr,          nullptr};
}

}  // namespace tessera::emulator
