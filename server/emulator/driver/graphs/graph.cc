#include "server/emulator/driver/graphs/graph.h"

#include <algorithm>

namespace tessera::emulator {
UserReferences::UserReferences(const UserReferences& other) : counts_(other.counts_) {
  for (const auto& [handle, count] : counts_) {
    if (const auto object = GetDriver().user_objects.Find(handle)) object->Retain(count);
  }
}

UserReferences::~UserReferences() {
  for (const auto& [handle, count] : counts_) ReleaseUserObject(handle, count);
}

bool UserReferences::Take(uint64_t object, uint64_t count) {
  const auto held = counts_.find(object);
  if (held == counts_.end() || count > held->second) return false;
  if ((held->second -= count) == 0) counts_.erase(held);
  return true;
}

void ReleaseUserObject(uint64_t handle, uint64_t count) {
  std::unique_lock lock(GetDriver().graph_mutex);
  const auto object = GetDriver().user_objects.Find(handle);
  if (object == nullptr || !object->Release(count)) return;
  GetDriver().user_objects.Remove(handle);
  lock.unlock();
  object->destroy()(object->data());
}

GraphNodePtr Graph::FindNode(uint64_t node_handle) const {
  for (const GraphNodePtr& node : nodes) {
    if (node->handle == node_handle) return node;
  }
  return nullptr;
}

GraphNodePtr Graph::Add(CUgraphNodeType type, CommandPtr command, std::vector<uint64_t> dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->graph = handle;
  node->type = type;
  node->command = std::move(command);
  node->dependencies = std::move(dependencies);
  node->handle = GetDriver().graph_nodes.Mint();
  nodes.push_back(node);
  GetDriver().graph_nodes.Put(node->handle, node);
  return node;
}

GraphPtr CreateGraph() {
  auto graph = std::make_shared<Graph>();
  graph->handle = GetDriver().graphs.Mint();
  GetDriver().graphs.Put(graph->handle, graph);
  return graph;
}

GraphPtr CloneGraph(const Graph& graph) {
  auto clone = std::make_shared<Graph>(graph.user_objects);
  clone->handle = GetDriver().graphs.Mint();
  GetDriver().graphs.Put(clone->handle, clone);
  clone->cloned_from = graph.handle;
  std::map<uint64_t, uint64_t> names;
  for (const GraphNodePtr& node : graph.nodes) {
    const GraphNodePtr copy = clone->Add(node->type, node->command, {});
    copy->cloned_from = node->handle;
    copy->attributes = node->attributes;
    names[node->handle] = copy->handle;
    if (node->child != 0) {
      const GraphPtr child = CloneGraph(*GetDriver().graphs.Find(node->child));
      child->embedded = true;
      copy->child = child->handle;
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (uint64_t before : graph.nodes[i]->dependencies) clone->nodes[i]->dependencies.push_back(names[before]);
    for (const auto& [before, edge] : graph.nodes[i]->edges) clone->nodes[i]->edges[names[before]] = edge;
  }
  return clone;
}

void DestroyGraph(const GraphPtr& graph) {
  GetDriver().graphs.Remove(graph->handle);
  for (const GraphNodePtr& node : graph->nodes) {
    GetDriver().graph_nodes.Remove(node->handle);
    DestroyEmbedded(*node);
  }
}

void DestroyEmbedded(const GraphNode& node) {
  if (const GraphPtr child = GetDriver().graphs.Find(node.child)) DestroyGraph(child);
  for (CUgraph body : node.bodies) {
    if (const GraphPtr graph = GetDriver().graphs.Find(body)) DestroyGraph(graph);
  }
}

bool SameEdge(const CUgraphEdgeData& one, const CUgraphEdgeData& other) {
  return one.from_port == other.from_port && one.to_port == other.to_port && one.type == other.type;
}

bool IsPlain(const CUgraphEdgeData& edge) { return SameEdge(edge, CUgraphEdgeData{}); }

bool ValidEdge(const GraphNode& from, const GraphNode& to, const CUgraphEdgeData& edge) {
  if (edge.to_port != 0 || std::any_of(std::begin(edge.reserved), std::end(edge.reserved), [](char c) { return c != 0; })) {
    return false;
  }
  const bool from_kernel = from.type == CU_GRAPH_NODE_TYPE_KERNEL;
  if (edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) {
    return from_kernel && to.type == CU_GRAPH_NODE_TYPE_KERNEL &&
           (edge.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC || edge.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
  }
  return edge.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && edge.from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
}

bool Frees(const Graph& graph, const GraphMemoryPtr& memory) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNodePtr& node) {
    return node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && static_cast<const GraphFreeCommand&>(*node->command).memory() == memory;
  });
}

bool UsesGraphMemory(const Graph& graph) {
  return HasNodes(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC) || HasNodes(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
}

bool HasNodes(const Graph& graph, CUgraphNodeType type) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [type](const GraphNodePtr& node) {
    if (node->type == type) return true;
    const GraphPtr child = GetDriver().graphs.Find(node->child);
    return child != nullptr && HasNodes(*child, type);
  });
}

}  // namespace tessera::emulator
