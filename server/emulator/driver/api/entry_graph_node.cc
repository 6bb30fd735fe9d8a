// Nodes of graphs: adding them. Their parameters: entry_graph_node_params.cc.
#include <algorithm>

#include "server/emulator/driver/code/kernel_command.h"
#include "server/emulator/driver/core/event_commands.h"
#include "server/emulator/driver/core/mem_op.h"
#include "server/emulator/driver/graphs/graph_params.h"
#include "server/emulator/driver/memory/copy.h"

using namespace tessera::emulator;

namespace {

using GraphLock = std::unique_lock<std::recursive_mutex>;

// Adds a node. `edges` may be null. With graph_mutex held.
CUresult Add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count, CUgraphNodeType type,
             CommandPtr command, GraphNodePtr* added = nullptr, const CUgraphEdgeData* edges = nullptr) {
  const GraphPtr graph = GetDriver().graphs.Find(handle);
  RETURN_IF(out == nullptr || graph == nullptr || (count != 0 && dependencies == nullptr), CUDA_ERROR_INVALID_VALUE);
  std::vector<uint64_t> before;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t node = reinterpret_cast<uint64_t>(dependencies[i]);
    RETURN_IF(graph->FindNode(node) == nullptr, CUDA_ERROR_INVALID_VALUE);
    RETURN_IF(std::find(before.begin(), before.end(), node) != before.end(), CUDA_ERROR_INVALID_VALUE);
    before.push_back(node);
    GraphNode future;
    future.type = type;
    RETURN_IF(edges != nullptr && !ValidEdge(*graph->FindNode(node), future, edges[i]), CUDA_ERROR_INVALID_VALUE);
  }
  const GraphNodePtr node = graph->Add(type, std::move(command), std::move(before));
  for (size_t i = 0; edges != nullptr && i < count; ++i) {
    if (!IsPlain(edges[i])) node->edges[reinterpret_cast<uint64_t>(dependencies[i])] = edges[i];
  }
  *out = reinterpret_cast<CUgraphNode>(node->handle);
  if (added != nullptr) *added = node;
  return CUDA_SUCCESS;
}

CUresult AddChild(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
                  const CUDA_CHILD_GRAPH_NODE_PARAMS& params, const CUgraphEdgeData* edges = nullptr) {
  const GraphPtr original = GetDriver().graphs.Find(params.graph);
  RETURN_IF(original == nullptr || params.graph == handle, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(original->embedded, CUDA_ERROR_NOT_SUPPORTED);
  const bool move = params.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  RETURN_IF(!move && params.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(HasNodes(*original, CU_GRAPH_NODE_TYPE_CONDITIONAL) || (!move && UsesGraphMemory(*original)),
            CUDA_ERROR_NOT_SUPPORTED);
  GraphNodePtr node;
  RETURN_ON_ERROR(Add(out, handle, dependencies, count, CU_GRAPH_NODE_TYPE_GRAPH, nullptr, &node, edges));
  const GraphPtr child = move ? original : CloneGraph(*original);
  child->embedded = true;
  node->child = child->handle;
  return CUDA_SUCCESS;
}

CUresult AddAlloc(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
                  CUDA_MEM_ALLOC_NODE_PARAMS* params, const CUgraphEdgeData* edges = nullptr) {
  GraphMemoryPtr memory;
  RETURN_ON_ERROR(GraphMemory::Make(*params, &memory));
  RETURN_ON_ERROR(Add(out, handle, dependencies, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::make_shared<AllocCommand>(memory),
                      nullptr, edges));
  params->dptr = memory->address();
  return CUDA_SUCCESS;
}

CUresult AddFree(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count, CUdeviceptr address,
                 const CUgraphEdgeData* edges = nullptr) {
  const GraphPtr graph = GetDriver().graphs.Find(handle);
  const GraphMemoryPtr memory = GraphMemory::Find(address);
  RETURN_IF(graph == nullptr || memory == nullptr || Frees(*graph, memory), CUDA_ERROR_INVALID_VALUE);
  return Add(out, handle, dependencies, count, CU_GRAPH_NODE_TYPE_MEM_FREE, std::make_shared<GraphFreeCommand>(memory), nullptr,
             edges);
}

CUresult AddConditional(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
                        CUDA_CONDITIONAL_NODE_PARAMS* params, const CUgraphEdgeData* edges) {
  const ConditionPtr condition = FindCondition(params->handle);
  const ContextPtr context = GetDriver().contexts.Find(params->ctx);
  const unsigned size = params->size;
  const bool has_size = params->type == CU_GRAPH_COND_TYPE_IF      ? size == 1 || size == 2
                        : params->type == CU_GRAPH_COND_TYPE_WHILE ? size == 1
                                                                   : params->type == CU_GRAPH_COND_TYPE_SWITCH && size != 0;
  RETURN_IF(context == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  RETURN_IF(condition == nullptr || condition->used || !has_size || condition->graph() != reinterpret_cast<uint64_t>(handle) ||
                condition->context() != context->handle(),
            CUDA_ERROR_INVALID_VALUE);
  GraphNodePtr node;
  RETURN_ON_ERROR(Add(out, handle, dependencies, count, CU_GRAPH_NODE_TYPE_CONDITIONAL, nullptr, &node, edges));
  condition->used = true;
  node->condition = condition;
  node->condition_handle = params->handle;
  node->condition_type = params->type;
  for (unsigned i = 0; i < size; ++i) {
    const GraphPtr body = CreateGraph();
    body->embedded = true;
    node->bodies.push_back(reinterpret_cast<CUgraph>(body->handle));
  }
  params->phGraph_out = node->bodies.data();
  return CUDA_SUCCESS;
}

CUresult AddAny(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* edges, size_t count,
                CUgraphNodeParams* params) {
  ContextPtr context;
  CommandPtr command;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(params == nullptr || params->reserved2 != 0, CUDA_ERROR_INVALID_VALUE);
  GraphLock lock(GetDriver().graph_mutex);
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH: return AddChild(node, graph, dependencies, count, params->graph, edges);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return AddFree(node, graph, dependencies, count, params->free.dptr, edges);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return AddConditional(node, graph, dependencies, count, &params->conditional, edges);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS alloc{params->alloc.poolProps, params->alloc.accessDescs, params->alloc.accessDescCount,
                                       params->alloc.bytesize, 0};
      RETURN_ON_ERROR(AddAlloc(node, graph, dependencies, count, &alloc, edges));
      params->alloc.dptr = alloc.dptr;
      return CUDA_SUCCESS;
    }
    default:
      RETURN_ON_ERROR(MakeNode(context, *params, &command));
      return Add(node, graph, dependencies, count, params->type, command, nullptr, edges);
  }
}

}  // namespace

extern "C" {

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* params) {
  ContextPtr context;
  CommandPtr command;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(MakeKernelNode(context, *params, &command));
  GraphLock lock(GetDriver().graph_mutex);
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL, command);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMCPY3D* params, CUcontext ctx) {
  ContextPtr context;
  CommandPtr command;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(MakeCopyNode(context, *params, ctx, &command));
  GraphLock lock(GetDriver().graph_mutex);
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMCPY, command);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext ctx) {
  ContextPtr context;
  CommandPtr command;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(MakeSetNode(context, *params, ctx, &command));
  GraphLock lock(GetDriver().graph_mutex);
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMSET, command);
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
  CommandPtr command;
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(MakeHostNode(*params, &command));
  GraphLock lock(GetDriver().graph_mutex);
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_HOST, command);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY, std::make_shared<EmptyCommand>());
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                   CUevent event) {
  CommandPtr command;
  RETURN_ON_ERROR(CheckEntry());
  RETURN_ON_ERROR(MakeEventNode(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &command));
  GraphLock lock(GetDriver().graph_mutex);
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, command);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUevent event) {
  CommandPtr command;
  RETURN_ON_ERROR(CheckEntry());
  RETURN_ON_ERROR(MakeEventNode(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &command));
  GraphLock lock(GetDriver().graph_mutex);
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, command);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  CommandPtr command;
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(MakeMemOpNode(*params, &command));
  GraphLock lock(GetDriver().graph_mutex);
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, command);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  CUgraph child) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  return AddChild(node, graph, dependencies, count, {child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE});
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  GraphLock lock(GetDriver().graph_mutex);
  return AddAlloc(node, graph, dependencies, count, params);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               CUdeviceptr dptr) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  return AddFree(node, graph, dependencies, count, dptr);
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                        CUgraphNodeParams* params) {
  return AddAny(node, graph, dependencies, nullptr, count, params);
}
CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                           size_t count, CUgraphNodeParams* params) {
  return AddAny(node, graph, dependencies, edges, count, params);
}

// The first forms know no CUkernel and no context.
CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  RETURN_IF(params == nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUDA_KERNEL_NODE_PARAMS whole = WithoutContext(*params);
  return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &whole);
}

}  // extern "C"
