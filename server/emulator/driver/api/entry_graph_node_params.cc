// Nodes of graphs: reading and changing their parameters and attributes. Adding them: entry_graph_node.cc.
#include "server/emulator/driver/code/kernel_command.h"
#include "server/emulator/driver/core/event_commands.h"
#include "server/emulator/driver/core/mem_op.h"
#include "server/emulator/driver/graphs/device_graphs.h"
#include "server/emulator/driver/graphs/graph_params.h"
#include "server/emulator/driver/memory/copy.h"

using namespace tessera::emulator;

namespace {

// Calls use(node) with the node, when it is of `type`, while nobody else changes graphs.
template <typename UseT>
CUresult WithNode(CUgraphNode handle, CUgraphNodeType type, UseT use) {
  RETURN_ON_ERROR(CheckEntry());
  std::lock_guard<std::recursive_mutex> lock(GetDriver().graph_mutex);
  const GraphNodePtr node = GetDriver().graph_nodes.Find(handle);
  RETURN_IF(node == nullptr || node->type != type, CUDA_ERROR_INVALID_VALUE);
  return use(*node);
}

template <typename CommandT>
CommandT& As(const GraphNode& node) {
  return static_cast<CommandT&>(*node.command);
}

// *out = what `read` finds in the node's command.
template <typename CommandT, typename ValueT, typename ReadT>
CUresult Read(CUgraphNode handle, CUgraphNodeType type, ValueT* out, ReadT read) {
  RETURN_IF(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  return WithNode(handle, type, [&](GraphNode& node) {
    *out = read(As<CommandT>(node));
    return CUDA_SUCCESS;
  });
}

// Gives the node the command that make(&command) makes.
template <typename MakeT>
CUresult Change(CUgraphNode handle, CUgraphNodeType type, MakeT make) {
  return WithNode(handle, type, [&](GraphNode& node) {
    CommandPtr command;
    RETURN_ON_ERROR(make(&command));
    node.command = command;
    return CUDA_SUCCESS;
  });
}

// As above for commands that belong to the current context: make(context, *params, &command).
template <typename ParamsT, typename MakeT>
CUresult ChangeInContext(CUgraphNode handle, CUgraphNodeType type, const ParamsT* params, MakeT make) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Change(handle, type, [&](CommandPtr* command) { return make(context, *params, command); });
}

CUDA_KERNEL_NODE_PARAMS ParamsOf(KernelCommand& command) {
  const LaunchShape& shape = command.shape();
  CUDA_KERNEL_NODE_PARAMS params{};
  // A kernel handle stays one: the two kinds are told apart by which registry knows it.
  if (GetDriver().functions.Find(command.handle()) != nullptr) {
    params.func = command.handle();
  } else {
    params.kern = reinterpret_cast<CUkernel>(command.handle());
  }
  params.gridDimX = shape.grid.x;
  params.gridDimY = shape.grid.y;
  params.gridDimZ = shape.grid.z;
  params.blockDimX = shape.block.x;
  params.blockDimY = shape.block.y;
  params.blockDimZ = shape.block.z;
  params.sharedMemBytes = shape.shared_bytes;
  params.kernelParams = command.parameter_pointers();
  params.ctx = command.function()->module()->context()->cuda_handle();
  return params;
}

CUresult SetAttribute(GraphNode& node, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue& value) {
  switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: node.attributes[attr] = value; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      return value.cooperative == static_cast<int>(As<KernelCommand>(node).shape().cooperative) ? CUDA_SUCCESS
                                                                                                : CUDA_ERROR_NOT_SUPPORTED;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      return value.clusterDim.x * value.clusterDim.y * value.clusterDim.z == 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

extern "C" {

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* params) {
  return Read<KernelCommand>(handle, CU_GRAPH_NODE_TYPE_KERNEL, params, ParamsOf);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS* params) {
  return ChangeInContext(handle, CU_GRAPH_NODE_TYPE_KERNEL, params, MakeKernelNode);
}

// The first forms know no CUkernel and no context.
CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  CUDA_KERNEL_NODE_PARAMS whole{};
  RETURN_ON_ERROR(cuGraphKernelNodeGetParams_v2(handle, &whole));
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  *params = {whole.func != nullptr ? whole.func : reinterpret_cast<CUfunction>(whole.kern),
             whole.gridDimX,
             whole.gridDimY,
             whole.gridDimZ,
             whole.blockDimX,
             whole.blockDimY,
             whole.blockDimZ,
             whole.sharedMemBytes,
             whole.kernelParams,
             whole.extra};
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUDA_KERNEL_NODE_PARAMS whole = WithoutContext(*params);
  return cuGraphKernelNodeSetParams_v2(handle, &whole);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUDA_KERNEL_NODE_PARAMS whole = WithoutContext(*params);
  return cuGraphExecKernelNodeSetParams_v2(exec, node, &whole);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID attr, CUkernelNodeAttrValue* value) {
  RETURN_IF(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  return WithNode(handle, CU_GRAPH_NODE_TYPE_KERNEL, [&](GraphNode& node) {
    *value = {};
    if (auto found = node.attributes.find(attr); found != node.attributes.end()) *value = found->second;
    if (attr == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE && node.device_node != nullptr) {
      value->deviceUpdatableKernelNode = {1, reinterpret_cast<CUgraphDeviceNode>(node.device_node->value())};
    }
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = As<KernelCommand>(node).shape().cooperative;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue* value) {
  RETURN_IF(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  return WithNode(handle, CU_GRAPH_NODE_TYPE_KERNEL, [&](GraphNode& node) {
    if (attr != CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE) return SetAttribute(node, attr, *value);
    return SetUpdatable(node, const_cast<CUkernelNodeAttrValue*>(value));  // as the driver does
  });
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  return WithNode(dst, CU_GRAPH_NODE_TYPE_KERNEL, [&](GraphNode& to) {
    return WithNode(src, CU_GRAPH_NODE_TYPE_KERNEL, [&](GraphNode& from) {
      RETURN_IF(to.device_node != nullptr || from.device_node != nullptr, CUDA_ERROR_NOT_SUPPORTED);
      to.attributes = from.attributes;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* params) {
  return Read<CopyCommand>(handle, CU_GRAPH_NODE_TYPE_MEMCPY, params, [](auto& command) { return command.copy(); });
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D* params) {
  return ChangeInContext(handle, CU_GRAPH_NODE_TYPE_MEMCPY, params, [](auto& context, auto& copy, CommandPtr* command) {
    return MakeCopyNode(context, copy, nullptr, command);
  });
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS* params) {
  return Read<SetCommand>(handle, CU_GRAPH_NODE_TYPE_MEMSET, params, [](auto& command) { return command.set(); });
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* params) {
  return ChangeInContext(handle, CU_GRAPH_NODE_TYPE_MEMSET, params, [](auto& context, auto& set, CommandPtr* command) {
    return MakeSetNode(context, set, nullptr, command);
  });
}

CUresult cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS* params) {
  return Read<HostCommand>(handle, CU_GRAPH_NODE_TYPE_HOST, params, [](auto& command) { return command.params(); });
}

CUresult cuGraphHostNodeSetParams(CUgraphNode handle, const CUDA_HOST_NODE_PARAMS* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Change(handle, CU_GRAPH_NODE_TYPE_HOST, [&](CommandPtr* command) { return MakeHostNode(*params, command); });
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return Read<AllocCommand>(handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params,
                            [](auto& command) { return command.memory()->params(); });
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* dptr) {
  return Read<GraphFreeCommand>(handle, CU_GRAPH_NODE_TYPE_MEM_FREE, dptr,
                                [](auto& command) { return command.memory()->address(); });
}

CUresult cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return ChangeInContext(handle, params->type, params, [](auto& context, auto& any, CommandPtr* command) {
    return any.type == CU_GRAPH_NODE_TYPE_GRAPH ? CUDA_ERROR_NOT_SUPPORTED : MakeNode(context, any, command);
  });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* graph) {
  RETURN_IF(graph == nullptr, CUDA_ERROR_INVALID_VALUE);
  return WithNode(handle, CU_GRAPH_NODE_TYPE_GRAPH, [&](GraphNode& node) {
    *graph = reinterpret_cast<CUgraph>(node.child);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode handle, CUevent* event) {
  return Read<EventRecordCommand>(handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, [](auto& command) { return command.handle(); });
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode handle, CUevent* event) {
  return Read<EventWaitCommand>(handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, [](auto& command) { return command.handle(); });
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode handle, CUevent event) {
  return Change(handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                [&](CommandPtr* command) { return MakeEventNode(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, command); });
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode handle, CUevent event) {
  return Change(handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                [&](CommandPtr* command) { return MakeEventNode(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, command); });
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode handle, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return Read<MemOpCommand>(handle, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params, [](auto& command) {
    auto& operations = command.operations();
    return CUDA_BATCH_MEM_OP_NODE_PARAMS{nullptr, static_cast<unsigned>(operations.size()), operations.data(), 0};
  });
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode handle, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Change(handle, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [&](CommandPtr* command) { return MakeMemOpNode(*params, command); });
}

}  // extern "C"
