// Instantiated graphs. Guarded by Driver::graph_mutex, except what a launch took a copy of.
// Source: CUDA driver API, "Graph Management".
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "server/emulator/driver/graphs/graph.h"

namespace tessera::emulator {

struct ExecBody;
struct ExecNode {
  uint64_t node = 0;  // handle of the graph's node it came from
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CommandPtr command;
  std::shared_ptr<ExecBody> child;
  std::vector<size_t> dependencies;  // indices into ExecBody::nodes
  bool enabled = true;
  ConditionPtr condition;
  CUgraphConditionalNodeType condition_type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::shared_ptr<ExecBody>> bodies;
};
struct ExecBody {
  std::vector<ExecNode> nodes;
  std::shared_ptr<UserReferences> user_objects;  // launches share it
};

class GraphExec {
 public:
  explicit GraphExec(uint64_t context_handle) : context_handle_(context_handle) {}
  uint64_t context_handle() const { return context_handle_; }
  std::shared_ptr<ExecBody> body;
  FencePtr last_launch;
  uint64_t flags = 0;
  std::shared_ptr<DeviceHandle> device_graph;  // its handle, if it is for launch by kernels
  bool updatable_nodes = false;                // it has nodes that kernels change
  std::shared_ptr<ExecBody> uploaded;          // what a launch by a kernel runs; null: it cannot be launched by kernels yet
  bool in_flight = false;                      // a kernel has launched it, or the host, and it has not ended; guarded as all else
  ExecNode* Find(uint64_t node_handle);

 private:
  const uint64_t context_handle_;
};
using GraphExecPtr = std::shared_ptr<GraphExec>;

}  // namespace tessera::emulator
