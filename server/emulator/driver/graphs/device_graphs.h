// Graphs that kernels launch, and kernel nodes that kernels change.
//
// What the kernels of a graph launch runs on the same stream when that graph's own nodes are done: before any tail launch, which
// is an order that a device may take as well. The stream goes on when all of it is done. Their handles are addresses on a device,
// which the driver gives again at once when an object is destroyed. With Driver::graph_mutex held, where nothing else is said.
// Source: driver 580.159.04 on an H200; CUDA driver API, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "server/emulator/driver/graphs/graph.h"
#include "server/emulator/ptx/run/launch.h"

namespace tessera::emulator {

// The first node of the graph, or of one embedded in it, that kernels cannot launch; null: there is none.
GraphNodePtr NodeNotForDevices(const Graph& graph);

// Whether the attribute may have this value.
bool MayBeUpdatable(const CUkernelNodeAttrValue& value);
// The attribute of a kernel node: makes it one that kernels change if `value` says so, and `value` its device node.
CUresult SetUpdatable(GraphNode& node, CUkernelNodeAttrValue* value);
bool HasUpdatableNodes(const Graph& graph);

// What kernels have changed of a node in the instance of its graph. Any thread.
class NodeChanges {
 public:
  // `parameter_bytes`: all that the kernel has.
  explicit NodeChanges(size_t parameter_bytes) : parameter_bytes_(parameter_bytes) {}
  // Kernels may change it once the instance was uploaded.
  void Upload();
  // The host has given it other parameters: what kernels have changed is gone.
  void Reset();
  // The results are numbers of cudaError_t.
  uint32_t SetParameter(uint64_t offset_bytes, std::span<const std::byte> value);
  uint32_t SetEnabled(bool enabled);
  uint32_t SetGrid(const Dim3& grid);
  // Changes what a launch runs now. False: it runs nothing.
  bool Apply(Dim3* grid, std::vector<std::byte>* parameters);

 private:
  struct Parameter {
    uint64_t offset_bytes;
    std::vector<std::byte> value;
  };
  std::mutex mutex_;
  bool uploaded_ = false;
  bool enabled_ = true;
  std::optional<Dim3> grid_;
  std::vector<Parameter> parameters_;
  const size_t parameter_bytes_;
};

// The command of a node in a new instance: of a node that kernels change one that their changes reach.
CommandPtr CommandOfInstance(const GraphNode& node);
// The instance is ready for kernels: to launch it as it is now, and to change its nodes.
void Upload(GraphExec& exec);

// One launch of a graph by the host, and what its kernels launch. `exec` is null for a graph that kernels do not launch.
// Any thread; kernels call what is GraphSink's.
class GraphRun : public GraphSink {
 public:
  // Of a kernel in no graph.
  GraphRun() = default;
  explicit GraphRun(GraphExecPtr exec);
  ~GraphRun() override;
  GraphRun(const GraphRun&) = delete;
  GraphRun& operator=(const GraphRun&) = delete;

  // That of the graph whose nodes the calling thread runs; null: none.
  static GraphRun* Current();
  // The nodes of the graph are done: what runs next, as it was uploaded; null: nothing.
  std::shared_ptr<ExecBody> Next();

  uint64_t current() const override;
  uint32_t Launch(uint64_t graph, uint64_t how) override;
  uint32_t SetParameter(uint64_t node, uint64_t offset_bytes, std::span<const std::byte> value) override;
  uint32_t SetEnabled(uint64_t node, bool enabled) override;
  uint32_t SetGrid(uint64_t node, const Dim3& grid) override;

 private:
  void Ended();  // with Driver::graph_mutex held

  const bool in_graph_ = false;
  GraphRun* const outer_ = nullptr;
  GraphExecPtr running_;
  bool again_ = false;  // it has launched itself
  std::deque<GraphExecPtr> launched_, tails_;
};

}  // namespace tessera::emulator
