// Instantiated graphs: making, changing, launching them.
#include <algorithm>

#include "server/emulator/driver/code/kernel_command.h"
#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/graphs/device_graphs.h"
#include "server/emulator/driver/graphs/graph_launch.h"
#include "server/emulator/driver/graphs/graph_params.h"

using namespace tessera::emulator;

namespace {

using GraphLock = std::unique_lock<std::recursive_mutex>;

constexpr unsigned long long kDeviceFlags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                            CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
constexpr unsigned long long kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                      CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

// `error_node` (may be null) receives the node that cannot be in such a graph.
CUresult Instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags, CUgraphNode* error_node = nullptr) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  GraphLock lock(GetDriver().graph_mutex);
  const GraphPtr graph = GetDriver().graphs.Find(handle);
  RETURN_IF(out == nullptr || graph == nullptr, CUDA_ERROR_INVALID_VALUE);
  const bool for_kernels = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
  RETURN_IF((flags & ~(for_kernels ? kDeviceFlags : kFlags)) != 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(graph->embedded, CUDA_ERROR_NOT_SUPPORTED);
  // Graphs with memory of their own have one instantiation at a time: the addresses are the graph's.
  RETURN_IF(UsesGraphMemory(*graph) && !graph->instantiated.expired(), CUDA_ERROR_NOT_SUPPORTED);
  RETURN_IF(HasUpdatableNodes(*graph) && !graph->instantiated.expired(), CUDA_ERROR_NOT_SUPPORTED);
  if (for_kernels) {
    RETURN_IF(graph->nodes.empty(), CUDA_ERROR_INVALID_VALUE);
    if (const GraphNodePtr node = NodeNotForDevices(*graph)) {
      if (error_node != nullptr) *error_node = reinterpret_cast<CUgraphNode>(node->handle);
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  auto exec = std::make_shared<GraphExec>(context->owner_handle());
  exec->body = BuildBody(*graph);
  RETURN_IF(exec->body == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(RaiseLocalMemory(*exec));
  exec->flags = flags;
  exec->updatable_nodes = HasUpdatableNodes(*graph);
  graph->instantiated = exec;
  if (for_kernels) exec->device_graph = std::make_shared<DeviceHandle>();
  const uint64_t exec_handle = for_kernels ? exec->device_graph->value() : GetDriver().graph_execs.Mint();
  GetDriver().graph_execs.Put(exec_handle, exec);
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) Upload(*exec);
  *out = reinterpret_cast<CUgraphExec>(exec_handle);
  return CUDA_SUCCESS;
}

CUresult Find(CUgraphExec handle, GraphExecPtr* exec) {
  *exec = GetDriver().graph_execs.Find(handle);
  return *exec != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Replaces a node's command once `make` has made the new one.
template <typename Make>
CUresult Change(CUgraphExec exec_handle, CUgraphNode node_handle, Make make) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  GraphLock lock(GetDriver().graph_mutex);
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(exec_handle, &exec));
  ExecNode* node = exec->Find(reinterpret_cast<uint64_t>(node_handle));
  RETURN_IF(node == nullptr || node->command == nullptr, CUDA_ERROR_INVALID_VALUE);
  CommandPtr command;
  RETURN_ON_ERROR(make(context, &command));
  RETURN_ON_ERROR(CheckExecChange(*node->command, *command));
  RETURN_ON_ERROR(RaiseLocalMemory(*exec, command->local_bytes()));
  // Kernels go on changing the node, from what it is now, once it is uploaded.
  if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    if (const auto& changes = static_cast<const KernelCommand&>(*node->command).changes()) {
      command = static_cast<const KernelCommand&>(*command).WithChanges(changes);
      changes->Reset();
    }
  }
  node->command = std::move(command);
  return CUDA_SUCCESS;
}

bool CanBeDisabled(const ExecNode& node) {
  return node.type == CU_GRAPH_NODE_TYPE_KERNEL || node.type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         node.type == CU_GRAPH_NODE_TYPE_MEMSET;
}

struct UpdateError {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  uint64_t node = 0;
};

// Checks that `graph` has the shape of `body`; then, with `apply`, takes its commands over.
UpdateError Update(ExecBody& body, const Graph& graph, bool apply) {
  if (body.nodes.size() != graph.nodes.size()) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0};
  std::map<uint64_t, size_t> index;
  for (size_t i = 0; i < graph.nodes.size(); ++i) index[graph.nodes[i]->handle] = i;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    ExecNode& old_node = body.nodes[i];
    const GraphNode& new_node = *graph.nodes[i];
    if (old_node.type != new_node.type) return {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, new_node.handle};
    std::vector<size_t> before, wanted = old_node.dependencies;
    for (uint64_t node : new_node.dependencies) before.push_back(index.at(node));
    std::sort(before.begin(), before.end());
    std::sort(wanted.begin(), wanted.end());
    if (before != wanted) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, new_node.handle};
    if (old_node.condition != nullptr) {
      if (old_node.condition != new_node.condition) return {CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, new_node.handle};
      for (size_t inner = 0; inner < old_node.bodies.size(); ++inner) {
        const UpdateError error = Update(*old_node.bodies[inner], *GetDriver().graphs.Find(new_node.bodies[inner]), apply);
        if (error.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return error;
      }
    } else if (old_node.child != nullptr) {
      const UpdateError inner = Update(*old_node.child, *GetDriver().graphs.Find(new_node.child), apply);
      if (inner.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return inner;
    } else if (CheckExecChange(*old_node.command, *new_node.command) != CUDA_SUCCESS) {
      return {CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, new_node.handle};
    }
    if (apply) {
      old_node.command = new_node.command;
      old_node.node = new_node.handle;
    }
  }
  if (apply) body.user_objects = std::make_shared<UserReferences>(graph.user_objects);
  return {};
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
  RETURN_IF((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0, CUDA_ERROR_INVALID_VALUE);  // needs a stream
  return Instantiate(phGraphExec, hGraph, flags);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                               size_t bufferSize) {
  if (phErrorNode != nullptr) *phErrorNode = nullptr;
  if (logBuffer != nullptr && bufferSize != 0) *logBuffer = 0;
  return Instantiate(phGraphExec, hGraph, 0);
}
CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                            size_t bufferSize) {
  return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  params->hErrNode_out = nullptr;
  const CUresult result = Instantiate(phGraphExec, hGraph, params->flags, &params->hErrNode_out);
  params->result_out = result == CUDA_SUCCESS            ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                       : params->hErrNode_out != nullptr ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
                                                         : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(hGraphExec, &exec));
  RETURN_IF(flags == nullptr, CUDA_ERROR_INVALID_VALUE);
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_ON_ERROR(CheckUnsafeCall());
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(hGraphExec, &exec));
  // What kernels may name is on the device: the driver waits until nothing runs there. Else a launch in progress holds what it
  // needs.
  if (exec->device_graph != nullptr || exec->updatable_nodes) {
    if (const ContextPtr context = GetDriver().contexts.Find(exec->context_handle())) context->Synchronize();
  }
  GraphLock lock(GetDriver().graph_mutex);
  RETURN_IF(GetDriver().graph_execs.Remove(hGraphExec) == nullptr, CUDA_ERROR_INVALID_VALUE);
  exec->device_graph.reset();  // a launch that is done may be there for a moment more
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  stream->WaitForRoom();
  GraphLock lock(GetDriver().graph_mutex);
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(hGraph, &exec));
  RETURN_ON_ERROR(CheckNotCapturing(*context, *stream));
  RETURN_ON_ERROR(RaiseLocalMemory(*exec));
  context->FlushPrint();
  GraphMemoryPlan plan;
  PlanMemory(*exec->body, &plan);
  std::vector<GraphMemoryPtr> free_first;
  RETURN_ON_ERROR(plan.Commit((exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0, &free_first));
  for (const GraphMemoryPtr& memory : free_first) {
    context->Submit(stream, std::make_shared<GraphFreeCommand>(memory));
  }
  std::vector<FencePtr> after;
  // Launches of one executable graph follow each other.
  if (exec->last_launch != nullptr && !exec->last_launch->done()) after.push_back(exec->last_launch);
  Upload(*exec);
  exec->last_launch = context->Submit(stream, MakeGraphCommand(exec), std::move(after));
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(hGraph, &exec));
  RETURN_ON_ERROR(CheckNotCapturing(*context, *stream));
  GraphLock lock(GetDriver().graph_mutex);
  RETURN_ON_ERROR(RaiseLocalMemory(*exec));
  Upload(*exec);
  context->Submit(stream, std::make_shared<EmptyCommand>());  // the order stays
  return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(hGraphExec, &exec));
  const GraphPtr graph = GetDriver().graphs.Find(hGraph);
  RETURN_IF(graph == nullptr || resultInfo == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(exec->updatable_nodes || HasUpdatableNodes(*graph), CUDA_ERROR_NOT_SUPPORTED);
  UpdateError error = Update(*exec->body, *graph, false);
  if (error.result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    error = Update(*exec->body, *graph, true);
    RETURN_ON_ERROR(RaiseLocalMemory(*exec));
  }
  *resultInfo = {};
  resultInfo->result = error.result;
  resultInfo->errorNode = reinterpret_cast<CUgraphNode>(error.node);
  return error.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                           CUgraphExecUpdateResult* updateResult_out) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  if (hErrorNode_out != nullptr) *hErrorNode_out = info.errorNode;
  if (updateResult_out != nullptr) *updateResult_out = info.result;
  return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Change(exec, node,
                [&](const ContextPtr& context, CommandPtr* command) { return MakeKernelNode(context, *params, command); });
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params, CUcontext ctx) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Change(exec, node,
                [&](const ContextPtr& context, CommandPtr* command) { return MakeCopyNode(context, *params, ctx, command); });
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params,
                                        CUcontext ctx) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Change(exec, node,
                [&](const ContextPtr& context, CommandPtr* command) { return MakeSetNode(context, *params, ctx, command); });
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Change(exec, node, [&](const ContextPtr&, CommandPtr* command) { return MakeHostNode(*params, command); });
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return Change(exec, node, [&](const ContextPtr&, CommandPtr* command) {
    return MakeEventNode(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, command);
  });
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return Change(exec, node, [&](const ContextPtr&, CommandPtr* command) {
    return MakeEventNode(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, command);
  });
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Change(exec, node, [&](const ContextPtr&, CommandPtr* command) { return MakeMemOpNode(*params, command); });
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec_handle, CUgraphNode node_handle, CUgraph child) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(exec_handle, &exec));
  ExecNode* node = exec->Find(reinterpret_cast<uint64_t>(node_handle));
  const GraphPtr graph = GetDriver().graphs.Find(child);
  RETURN_IF(node == nullptr || node->child == nullptr || graph == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(Update(*node->child, *graph, false).result != CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  Update(*node->child, *graph, true);
  return RaiseLocalMemory(*exec);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
  }
  return Change(exec, node, [&](const ContextPtr& context, CommandPtr* command) { return MakeNode(context, *params, command); });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(hGraphExec, &exec));
  ExecNode* node = exec->Find(reinterpret_cast<uint64_t>(hNode));
  RETURN_IF(node == nullptr || !CanBeDisabled(*node), CUDA_ERROR_INVALID_VALUE);
  node->enabled = isEnabled != 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  GraphExecPtr exec;
  RETURN_ON_ERROR(Find(hGraphExec, &exec));
  const ExecNode* node = exec->Find(reinterpret_cast<uint64_t>(hNode));
  RETURN_IF(node == nullptr || isEnabled == nullptr || !CanBeDisabled(*node), CUDA_ERROR_INVALID_VALUE);
  *isEnabled = node->enabled;
  return CUDA_SUCCESS;
}

}  // extern "C"
