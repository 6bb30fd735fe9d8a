// Graphs and their nodes. All of this is guarded by Driver::graph_mutex. Nodes refer to each other by handle.
// Source: CUDA driver API, "Graph Management".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/emulator/driver/code/conditional.h"
#include "server/emulator/driver/core/command.h"
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/graphs/device_handle.h"
#include "server/emulator/driver/graphs/graph_memory.h"

namespace tessera::emulator {

class UserObject {
 public:
  UserObject(void* data, CUhostFn destroy, unsigned count) : data_(data), destroy_(destroy), count_(count) {}
  void* data() const { return data_; }
  CUhostFn destroy() const { return destroy_; }
  uint64_t count_now() const { return count_; }
  uint64_t handle = 0;
  void Retain(uint64_t count) { count_ += count; }
  // True when the last reference went: the destructor is then due.
  bool Release(uint64_t count) { return (count_ -= count) == 0; }

 private:
  void* const data_;
  const CUhostFn destroy_;
  uint64_t count_;
};

// References to user objects that a graph or an instantiated graph holds. Copying takes references too; destroying gives
// them back. With Driver::graph_mutex held, except that the last destruction of an instantiated graph's may be anywhere.
class UserReferences {
 public:
  UserReferences() = default;
  UserReferences(const UserReferences& other);
  UserReferences& operator=(const UserReferences&) = delete;
  ~UserReferences();
  // Takes over references that the caller has.
  void Add(uint64_t object, uint64_t count) { counts_[object] += count; }
  // False when that many are not held; else they are the caller's to release.
  bool Take(uint64_t object, uint64_t count);

 private:
  std::map<uint64_t, uint64_t> counts_;
};

class GraphNode {
 public:
  uint64_t handle = 0;
  uint64_t graph = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CommandPtr command;  // null for child graphs
  uint64_t child = 0;  // handle of the embedded graph
  std::vector<uint64_t> dependencies;
  std::map<uint64_t, CUgraphEdgeData> edges;  // of dependencies that are more than plain ones
  ConditionPtr condition;                     // of conditional nodes, with the next three
  CUgraphConditionalHandle condition_handle = 0;
  CUgraphConditionalNodeType condition_type = CU_GRAPH_COND_TYPE_IF;
  std::vector<CUgraph> bodies;  // stays where it is: the application has its address
  uint64_t cloned_from = 0;
  std::map<int, CUlaunchAttributeValue> attributes;  // of kernel nodes
  std::shared_ptr<DeviceHandle> device_node;         // of kernel nodes that kernels change
};
using GraphNodePtr = std::shared_ptr<GraphNode>;

class GraphExec;

class Graph {
 public:
  Graph() = default;
  explicit Graph(const UserReferences& held) : user_objects(held) {}
  uint64_t handle = 0;
  bool embedded = false;  // child of a node: cannot be destroyed by itself
  uint64_t cloned_from = 0;
  std::vector<GraphNodePtr> nodes;  // in order of creation
  UserReferences user_objects;
  std::weak_ptr<GraphExec> instantiated;  // the latest

  GraphNodePtr FindNode(uint64_t node_handle) const;
  GraphNodePtr Add(CUgraphNodeType type, CommandPtr command, std::vector<uint64_t> dependencies);
};
using GraphPtr = std::shared_ptr<Graph>;

GraphPtr CreateGraph();
// A copy with nodes of its own.
GraphPtr CloneGraph(const Graph& graph);
// Takes the graphs embedded in a node out of the registries.
void DestroyEmbedded(const GraphNode& node);
// Takes a graph, its nodes and embedded graphs out of the registries.
void DestroyGraph(const GraphPtr& graph);
// Drops `count` references of a user object, running its destructor when they were the last.
void ReleaseUserObject(uint64_t handle, uint64_t count);
// A dependency that says no more than "after".
bool IsPlain(const CUgraphEdgeData& edge);
bool SameEdge(const CUgraphEdgeData& one, const CUgraphEdgeData& other);
// Programmatic edges lead from kernel to kernel. They order here as plain ones do, which is a schedule they allow.
bool ValidEdge(const GraphNode& from, const GraphNode& to, const CUgraphEdgeData& edge);

// Graphs with allocation or free nodes keep their nodes and edges, and cannot be cloned.
bool UsesGraphMemory(const Graph& graph);
// True when a node of the graph frees this memory.
bool Frees(const Graph& graph, const GraphMemoryPtr& memory);
// True when the graph or one embedded in it has nodes of this type.
bool HasNodes(const Graph& graph, CUgraphNodeType type);
}  // namespace tessera::emulator
