// Graphs, their nodes, and instantiated graphs.
//
// All of this is guarded by Driver::graph_mutex, except what a launch took a copy of. A launch runs the nodes one after
// the other on the launching stream's thread, in an order drawn at random among those the edges allow, so that a missing
// edge shows. Nodes refer to each other by handle.
// Source: CUDA driver API, "Graph Management".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/emulator/driver/command.h"
#include "server/emulator/driver/state.h"

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

class GraphNode {
 public:
  uint64_t handle = 0;
  uint64_t graph = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CommandPtr command;                 // null for child graphs
  uint64_t child = 0;                 // handle of the embedded graph
  std::vector<uint64_t> dependencies;
  uint64_t cloned_from = 0;
  std::map<int, CUlaunchAttributeValue> attributes;  // of kernel nodes
};
using GraphNodePtr = std::shared_ptr<GraphNode>;

class Graph {
 public:
  ~Graph();
  uint64_t handle = 0;
  bool embedded = false;              // child of a node: cannot be destroyed by itself
  uint64_t cloned_from = 0;
  std::vector<GraphNodePtr> nodes;    // in order of creation
  std::map<uint64_t, uint64_t> user_objects;  // handle -> references held

  GraphNodePtr FindNode(uint64_t node_handle) const;
  GraphNodePtr Add(CUgraphNodeType type, CommandPtr command, std::vector<uint64_t> dependencies);
};
using GraphPtr = std::shared_ptr<Graph>;

// What an instantiated graph and its launches in flight hold of the user objects of the graph it came from. Embedded graphs
// hold their own (CUDA programming guide, "CUDA User Objects"). Made with Driver::graph_mutex held.
class UserObjectReferences {
 public:
  explicit UserObjectReferences(const Graph& graph);
  ~UserObjectReferences();
  UserObjectReferences(const UserObjectReferences&) = delete;
  UserObjectReferences& operator=(const UserObjectReferences&) = delete;

 private:
  const std::map<uint64_t, uint64_t> held_;
};

struct ExecBody;
struct ExecNode {
  uint64_t node = 0;                  // handle of the graph's node it came from
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CommandPtr command;
  std::shared_ptr<ExecBody> child;
  std::vector<size_t> dependencies;   // indices into ExecBody::nodes
  bool enabled = true;
};
struct ExecBody {
  std::vector<ExecNode> nodes;
  std::shared_ptr<const UserObjectReferences> references;
};

class GraphExec {
 public:
  explicit GraphExec(uint64_t context_handle) : context_handle_(context_handle) {}
  uint64_t context_handle() const { return context_handle_; }
  std::shared_ptr<ExecBody> body;
  FencePtr last_launch;
  uint64_t flags = 0;
  ExecNode* Find(uint64_t node_handle);

 private:
  const uint64_t context_handle_;
};
using GraphExecPtr = std::shared_ptr<GraphExec>;

GraphPtr CreateGraph();
// A copy with nodes of its own.
GraphPtr CloneGraph(const Graph& graph);
// Takes a graph, its nodes and embedded graphs out of the registries.
void DestroyGraph(const GraphPtr& graph);
// Drops `count` references of a user object, running its destructor when they were the last.
void ReleaseUserObject(uint64_t handle, uint64_t count);
// Null when the edges form a cycle.
std::shared_ptr<ExecBody> BuildBody(const Graph& graph);
// The command that runs one launch of `body`.
CommandPtr MakeGraphCommand(const ExecBody& body);

}  // namespace tessera::emulator
