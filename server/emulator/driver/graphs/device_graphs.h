// Graphs that kernels launch, and kernel nodes that kernels change.
//
// What the kernels of a graph launch runs on the same stream when that graph's own nodes are done: before any tail launch, which
// is an order that a device may take as well. The stream goes on when all of it is done. Their handles are addresses on a device,
// which the driver gives again at once when an object is destroyed. With Driver::graph_mutex held, where nothing else is said.
// Source: driver 580.159.04 on an H200; CUDA driver API, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE.
#pragma once

#include <deque>
#include <memory>

#include "server/emulator/driver/code/kernel_requests.h"
#include "server/emulator/driver/graphs/graph_exec.h"

namespace tessera::emulator {

// The first node of the graph, or of one embedded in it, that kernels cannot launch; null: there is none.
GraphNodePtr NodeNotForDevices(const Graph& graph);

// Whether the attribute may have this value.
bool MayBeUpdatable(const CUkernelNodeAttrValue& value);
// The attribute of a kernel node: makes it one that kernels change if `value` says so, and `value` its device node.
CUresult SetUpdatable(GraphNode& node, CUkernelNodeAttrValue* value);
bool HasUpdatableNodes(const Graph& graph);

// The command of a node in a new instance: of a node that kernels change one that their changes reach.
CommandPtr CommandOfInstance(const GraphNode& node);
// The instance is ready for kernels: to launch it as it is now, and to change its nodes.
void Upload(GraphExec& exec);

// One launch of a graph by the host, and what its kernels launch. `exec` is null for a graph that kernels do not launch.
// Any thread; kernels call what is GraphSink's.
class GraphRun : public KernelRequests {
 public:
  explicit GraphRun(GraphExecPtr exec);
  ~GraphRun() override;
  GraphRun(const GraphRun&) = delete;
  GraphRun& operator=(const GraphRun&) = delete;

  // The nodes of the graph are done: what runs next, as it was uploaded; null: nothing.
  std::shared_ptr<ExecBody> Next();

  uint64_t current() const override;
  uint32_t Launch(uint64_t graph, uint64_t how) override;

 private:
  void Ended();  // with Driver::graph_mutex held

  const KernelRequests::Scope scope_{this};
  GraphExecPtr running_;
  bool again_ = false;  // it has launched itself
  std::deque<GraphExecPtr> launched_, tails_;
};

}  // namespace tessera::emulator
