#include "server/worker/graphs/graph_handles.h"

#include "generated/driver_table.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

void CollectGraph(CallContext& call, CUgraph graph, std::vector<HandleId>* handles);

void CollectEmbedded(CallContext& call, CUgraph graph, std::vector<HandleId>* handles) {
  CollectGraph(call, graph, handles);
  const HandleId id = call.worker().objects().HandleOf(HandleKind::kGraph, reinterpret_cast<uint64_t>(graph));
  if (!id.is_null()) handles->push_back(id);
}

// The handles of a node, and of the graphs embedded in it with their nodes.
void CollectNode(CallContext& call, CUgraphNode node, std::vector<HandleId>* handles) {
  ObjectTable& objects = call.worker().objects();
  const DriverTable& driver = call.driver();
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUgraph child = nullptr;
  if (driver.cuGraphNodeGetType != nullptr && driver.cuGraphChildGraphNodeGetGraph != nullptr &&
      driver.cuGraphNodeGetType(node, &type) == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_GRAPH &&
      driver.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
    CollectEmbedded(call, child, handles);
  }
  if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    for (CUgraph body : call.worker().parts().conditional_bodies().Of(node)) CollectEmbedded(call, body, handles);
  }
  const HandleId id = objects.HandleOf(HandleKind::kGraphNode, reinterpret_cast<uint64_t>(node));
  if (!id.is_null()) handles->push_back(id);
}

void CollectGraph(CallContext& call, CUgraph graph, std::vector<HandleId>* handles) {
  std::vector<CUgraphNode> nodes;
  if (ListNodes(call, graph, false, &nodes) != CUDA_SUCCESS) return;
  for (CUgraphNode node : nodes) CollectNode(call, node, handles);
}

}  // namespace

std::vector<CUgraphNode> UseNodes(CallContext& call, const Array<HandleId>& ids) {
  std::vector<CUgraphNode> nodes;
  nodes.reserve(ids.size());
  for (HandleId id : ids) {
    nodes.push_back(call.Use<CUgraphNode>(id));
    if (nodes.back() == nullptr) call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  return nodes;
}

void KnownNodes(CallContext& call, const std::vector<CUgraphNode>& nodes, Array<HandleId>* ids) {
  HandleId* out = ids->Allocate(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) out[i] = call.Known(HandleKind::kGraphNode, nodes[i]);
}

CUresult ListNodes(CallContext& call, CUgraph graph, bool roots, std::vector<CUgraphNode>* nodes) {
  const DriverTable& driver = call.driver();
  const auto list = roots ? driver.cuGraphGetRootNodes : driver.cuGraphGetNodes;
  if (list == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  size_t count = 0;
  CUresult result = list(graph, nullptr, &count);
  if (result != CUDA_SUCCESS) return result;
  nodes->resize(count);
  if (count != 0) result = list(graph, nodes->data(), &count);
  if (count < nodes->size()) nodes->resize(count);
  return result;
}

CUresult DestroyGraph(CallContext& call, CUgraph graph, HandleId id, std::vector<HandleId>* freed) {
  std::vector<HandleId> handles;
  CollectGraph(call, graph, &handles);
  const CUresult result = call.driver().cuGraphDestroy(graph);
  if (result != CUDA_SUCCESS) return result;
  for (HandleId handle : handles) call.Free(handle);
  call.Free(id);
  if (freed != nullptr) *freed = std::move(handles);
  return result;
}

CUresult DestroyNode(CallContext& call, CUgraphNode node, HandleId id, std::vector<HandleId>* freed) {
  std::vector<HandleId> handles;
  CollectNode(call, node, &handles);
  const CUresult result = call.driver().cuGraphDestroyNode(node);
  if (result != CUDA_SUCCESS) return result;
  std::erase(handles, id);  // the client knows that this one ends
  for (HandleId handle : handles) call.Free(handle);
  call.Free(id);
  *freed = std::move(handles);
  return result;
}

}  // namespace tessera
