// Graphs as a whole: creation, cloning, edges, queries, user objects, printing.
#include <algorithm>
#include <cstdio>

#include "server/emulator/driver/code/conditional.h"
#include "server/emulator/driver/code/kernel_command.h"
#include "server/emulator/driver/graphs/device_graphs.h"
#include "server/emulator/driver/graphs/graph.h"

using namespace tessera::emulator;

namespace {

using GraphLock = std::unique_lock<std::recursive_mutex>;

CUresult Find(CUgraph handle, GraphPtr* graph) {
  RETURN_ON_ERROR(CheckEntry());
  *graph = GetDriver().graphs.Find(handle);
  return *graph != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult FindNode(CUgraphNode handle, GraphPtr* graph, GraphNodePtr* node) {
  RETURN_ON_ERROR(CheckEntry());
  *node = GetDriver().graph_nodes.Find(handle);
  RETURN_IF(*node == nullptr, CUDA_ERROR_INVALID_VALUE);
  *graph = GetDriver().graphs.Find((*node)->graph);
  return *graph != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Fills what the caller has room for and says how many there are, as the getters of nodes do: with an array that is too
// long, the rest is NULL and the count is what was written. `data` belongs to the edges these nodes are at the other end of.
CUresult Fill(const std::vector<uint64_t>& from, const std::vector<CUgraphEdgeData>& data, CUgraphNode* out,
              CUgraphEdgeData* edges, size_t* count) {
  RETURN_IF(count == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (out == nullptr) {
    *count = from.size();
    return CUDA_SUCCESS;
  }
  // Edges that are more than plain ones would be lost without a word.
  RETURN_IF(edges == nullptr && !std::all_of(data.begin(), data.end(), IsPlain), CUDA_ERROR_LOSSY_QUERY);
  for (size_t i = 0; i < *count; ++i) {
    out[i] = reinterpret_cast<CUgraphNode>(i < from.size() ? from[i] : 0);
    if (edges != nullptr && i < from.size()) edges[i] = i < data.size() ? data[i] : CUgraphEdgeData{};
  }
  *count = std::min(*count, from.size());
  return CUDA_SUCCESS;
}

CUgraphEdgeData EdgeOf(const GraphNode& to, uint64_t from) {
  const auto found = to.edges.find(from);
  return found == to.edges.end() ? CUgraphEdgeData{} : found->second;
}

std::vector<uint64_t> Dependents(const Graph& graph, uint64_t handle) {
  std::vector<uint64_t> dependents;
  for (const GraphNodePtr& node : graph.nodes) {
    if (std::find(node->dependencies.begin(), node->dependencies.end(), handle) != node->dependencies.end()) {
      dependents.push_back(node->handle);
    }
  }
  return dependents;
}

CUresult Edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(handle, &graph));
  RETURN_IF(count == nullptr || (from == nullptr) != (to == nullptr), CUDA_ERROR_INVALID_VALUE);
  std::vector<uint64_t> sources, targets;
  std::vector<CUgraphEdgeData> edges;
  for (const GraphNodePtr& node : graph->nodes) {
    for (uint64_t before : node->dependencies) {
      sources.push_back(before);
      targets.push_back(node->handle);
      edges.push_back(EdgeOf(*node, before));
    }
  }
  size_t written = *count;
  RETURN_ON_ERROR(Fill(sources, edges, from, data, count));
  return from == nullptr ? CUDA_SUCCESS : Fill(targets, {}, to, nullptr, &written);
}

CUresult ChangeEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges, size_t count,
                     bool add) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(handle, &graph));
  RETURN_IF(count != 0 && (from == nullptr || to == nullptr), CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(!add && count != 0 && UsesGraphMemory(*graph), CUDA_ERROR_NOT_SUPPORTED);
  for (int pass = 0; pass < 2; ++pass) {  // check all, then change
    for (size_t i = 0; i < count; ++i) {
      const uint64_t source = reinterpret_cast<uint64_t>(from[i]);
      const GraphNodePtr target = graph->FindNode(reinterpret_cast<uint64_t>(to[i]));
      RETURN_IF(target == nullptr || graph->FindNode(source) == nullptr || source == target->handle, CUDA_ERROR_INVALID_VALUE);
      auto& before = target->dependencies;
      const bool exists = std::find(before.begin(), before.end(), source) != before.end();
      if (pass == 0) {
        RETURN_IF(exists == add, CUDA_ERROR_INVALID_VALUE);
        if (edges == nullptr) continue;
        RETURN_IF(add ? !ValidEdge(*graph->FindNode(source), *target, edges[i]) : !SameEdge(edges[i], EdgeOf(*target, source)),
                  CUDA_ERROR_INVALID_VALUE);
      } else if (add) {
        before.push_back(source);
        if (edges != nullptr && !IsPlain(edges[i])) target->edges[source] = edges[i];
      } else {
        std::erase(before, source);
        target->edges.erase(source);
      }
    }
  }
  return CUDA_SUCCESS;
}

const char* TypeName(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY: return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET: return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST: return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH: return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY: return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return "CONDITIONAL";
    default: return "NODE";
  }
}

}  // namespace

extern "C" {

CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(phGraph == nullptr || flags != 0, CUDA_ERROR_INVALID_VALUE);
  GraphLock lock(GetDriver().graph_mutex);
  *phGraph = reinterpret_cast<CUgraph>(CreateGraph()->handle);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph) {
  GraphPtr graph;
  GraphLock lock(GetDriver().graph_mutex);
  RETURN_ON_ERROR(Find(hGraph, &graph));
  RETURN_IF(graph->embedded, CUDA_ERROR_INVALID_VALUE);
  // Their nodes have something on the device: the driver waits until nothing runs there.
  std::vector<ContextPtr> busy;
  for (const GraphNodePtr& node : graph->nodes) {
    if (node->device_node != nullptr)
      busy.push_back(static_cast<const KernelCommand&>(*node->command).function()->module()->context());
  }
  if (!busy.empty()) {
    lock.unlock();
    for (const ContextPtr& context : busy) context->Synchronize();
    lock.lock();
  }
  DestroyGraph(graph);
  lock.unlock();  // destructors of user objects run without it
  graph.reset();
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(originalGraph, &graph));
  RETURN_IF(phGraphClone == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(UsesGraphMemory(*graph) || HasNodes(*graph, CU_GRAPH_NODE_TYPE_CONDITIONAL) || HasUpdatableNodes(*graph),
            CUDA_ERROR_NOT_SUPPORTED);
  *phGraphClone = reinterpret_cast<CUgraph>(CloneGraph(*graph)->handle);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(hClonedGraph, &graph));
  RETURN_IF(phNode == nullptr, CUDA_ERROR_INVALID_VALUE);
  for (const GraphNodePtr& node : graph->nodes) {
    if (node->cloned_from != reinterpret_cast<uint64_t>(hOriginalNode)) continue;
    *phNode = reinterpret_cast<CUgraphNode>(node->handle);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  GraphNodePtr node;
  RETURN_ON_ERROR(FindNode(hNode, &graph, &node));
  RETURN_IF(type == nullptr, CUDA_ERROR_INVALID_VALUE);
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(hGraph, &graph));
  std::vector<uint64_t> handles;
  for (const GraphNodePtr& node : graph->nodes) handles.push_back(node->handle);
  return Fill(handles, {}, nodes, nullptr, numNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(hGraph, &graph));
  std::vector<uint64_t> handles;
  for (const GraphNodePtr& node : graph->nodes) {
    if (node->dependencies.empty()) handles.push_back(node->handle);
  }
  return Fill(handles, {}, rootNodes, nullptr, numRootNodes);
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
  return Edges(hGraph, from, to, nullptr, numEdges);
}
CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData, size_t* numEdges) {
  return Edges(hGraph, from, to, edgeData, numEdges);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies, CUgraphEdgeData* edgeData,
                                       size_t* numDependencies) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  GraphNodePtr node;
  RETURN_ON_ERROR(FindNode(hNode, &graph, &node));
  std::vector<CUgraphEdgeData> edges;
  for (uint64_t before : node->dependencies) edges.push_back(EdgeOf(*node, before));
  return Fill(node->dependencies, edges, dependencies, edgeData, numDependencies);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
  return cuGraphNodeGetDependencies_v2(hNode, dependencies, nullptr, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes, CUgraphEdgeData* edgeData,
                                         size_t* numDependentNodes) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  GraphNodePtr node;
  RETURN_ON_ERROR(FindNode(hNode, &graph, &node));
  const std::vector<uint64_t> dependents = Dependents(*graph, node->handle);
  std::vector<CUgraphEdgeData> edges;
  for (uint64_t after : dependents) edges.push_back(EdgeOf(*graph->FindNode(after), node->handle));
  return Fill(dependents, edges, dependentNodes, edgeData, numDependentNodes);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes, size_t* numDependentNodes) {
  return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, nullptr, numDependentNodes);
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return ChangeEdges(hGraph, from, to, nullptr, count, true);
}
CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edgeData, size_t count) {
  return ChangeEdges(hGraph, from, to, edgeData, count, true);
}
CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return ChangeEdges(hGraph, from, to, nullptr, count, false);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* edgeData, size_t count) {
  return ChangeEdges(hGraph, from, to, edgeData, count, false);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  GraphNodePtr node;
  RETURN_ON_ERROR(FindNode(hNode, &graph, &node));
  RETURN_IF(UsesGraphMemory(*graph) || node->device_node != nullptr, CUDA_ERROR_NOT_SUPPORTED);
  for (const GraphNodePtr& other : graph->nodes) {
    std::erase(other->dependencies, node->handle);
    other->edges.erase(node->handle);
  }
  std::erase(graph->nodes, node);
  GetDriver().graph_nodes.Remove(hNode);
  DestroyEmbedded(*node);
  return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(hGraph, &graph));
  RETURN_IF(path == nullptr, CUDA_ERROR_INVALID_VALUE);
  FILE* file = fopen(path, "w");
  RETURN_IF(file == nullptr, CUDA_ERROR_OPERATING_SYSTEM);
  fprintf(file, "digraph graph_%llx {\n", static_cast<unsigned long long>(graph->handle));
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const GraphNode& node = *graph->nodes[i];
    const char* name = node.type == CU_GRAPH_NODE_TYPE_KERNEL
                           ? static_cast<const KernelCommand&>(*node.command).function()->info().name.c_str()
                           : "";
    fprintf(file, "  node_%zu [label=\"%s %s\"];\n", i, TypeName(node.type), name);
  }
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    for (size_t j = 0; j < graph->nodes.size(); ++j) {
      const auto& before = graph->nodes[i]->dependencies;
      if (std::find(before.begin(), before.end(), graph->nodes[j]->handle) == before.end()) continue;
      fprintf(file, "  node_%zu -> node_%zu;\n", j, i);
    }
  }
  fprintf(file, "}\n");
  return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy, unsigned int initialRefcount,
                            unsigned int flags) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(object_out == nullptr || destroy == nullptr || initialRefcount == 0 || initialRefcount > INT32_MAX ||
                flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
            CUDA_ERROR_INVALID_VALUE);
  auto object = std::make_shared<UserObject>(ptr, destroy, initialRefcount);
  *object_out = reinterpret_cast<CUuserObject>(GetDriver().user_objects.Add(std::move(object)));
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  RETURN_ON_ERROR(CheckEntry());
  GraphLock lock(GetDriver().graph_mutex);
  const auto object = GetDriver().user_objects.Find(handle);
  RETURN_IF(object == nullptr || count == 0, CUDA_ERROR_INVALID_VALUE);
  object->Retain(count);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  RETURN_ON_ERROR(CheckEntry());
  {
    GraphLock lock(GetDriver().graph_mutex);
    const auto object = GetDriver().user_objects.Find(handle);
    RETURN_IF(object == nullptr || count == 0 || count > object->count_now(), CUDA_ERROR_INVALID_VALUE);
  }
  ReleaseUserObject(reinterpret_cast<uint64_t>(handle), count);
  return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph hGraph, CUuserObject handle, unsigned int count, unsigned int flags) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(hGraph, &graph));
  const auto object = GetDriver().user_objects.Find(handle);
  RETURN_IF(object == nullptr || count == 0 || (flags & ~CU_GRAPH_USER_OBJECT_MOVE) != 0, CUDA_ERROR_INVALID_VALUE);
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) object->Retain(count);
  graph->user_objects.Add(reinterpret_cast<uint64_t>(handle), count);
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph hGraph, CUuserObject handle, unsigned int count) {
  GraphLock lock(GetDriver().graph_mutex);
  GraphPtr graph;
  RETURN_ON_ERROR(Find(hGraph, &graph));
  RETURN_IF(count == 0 || !graph->user_objects.Take(reinterpret_cast<uint64_t>(handle), count), CUDA_ERROR_INVALID_VALUE);
  lock.unlock();
  ReleaseUserObject(reinterpret_cast<uint64_t>(handle), count);
  return CUDA_SUCCESS;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* pHandle_out, CUgraph hGraph, CUcontext ctx,
                                        unsigned int defaultLaunchValue, unsigned int flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  std::lock_guard lock(GetDriver().graph_mutex);
  RETURN_IF(pHandle_out == nullptr || GetDriver().graphs.Find(hGraph) == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF((flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT) != 0, CUDA_ERROR_INVALID_VALUE);
  context = GetDriver().contexts.Find(ctx);  // none is not the current one (measured)
  RETURN_IF(context == nullptr || !context->active(), CUDA_ERROR_INVALID_CONTEXT);
  *pHandle_out = AddCondition(std::make_shared<Condition>(reinterpret_cast<uint64_t>(hGraph), context->handle(),
                                                          defaultLaunchValue, (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0));
  return CUDA_SUCCESS;
}

}  // extern "C"
