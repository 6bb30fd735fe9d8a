#include "server/emulator/driver/graphs/device_graphs.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "server/emulator/driver/code/kernel_command.h"
#include "server/emulator/driver/memory/copy.h"

namespace tessera::emulator {
namespace {

// The streams for launches by kernels (cuda_device_runtime_api.h).
constexpr uint64_t kTail = 0x0100000000000000, kFireAndForget = 0x0200000000000000, kSibling = 0x0300000000000000;

bool CopiesOnDevice(const CopyCommand& copy) {
  for (const CopyCommand::Endpoint* end : {&copy.source(), &copy.destination()}) {
    if (end->array != nullptr || (end->is_host && end->pageable)) return false;
  }
  return true;
}

}  // namespace

GraphNodePtr NodeNotForDevices(const Graph& graph) {
  for (const GraphNodePtr& node : graph.nodes) {
    switch (node->type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
      case CU_GRAPH_NODE_TYPE_MEMSET: break;
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        if (!CopiesOnDevice(static_cast<const CopyCommand&>(*node->command))) return node;
        break;
      case CU_GRAPH_NODE_TYPE_GRAPH:
        if (const GraphPtr child = GetDriver().graphs.Find(node->child)) {
          if (GraphNodePtr inner = NodeNotForDevices(*child)) return inner;
        }
        break;
      default: return node;
    }
  }
  return nullptr;
}

CommandPtr CommandOfInstance(const GraphNode& node) {
  if (node.device_node == nullptr) return node.command;
  const auto& kernel = static_cast<const KernelCommand&>(*node.command);
  return kernel.WithChanges(AddNodeChanges(node.device_node->value(), kernel.function()->info().parameter_bytes));
}

void Upload(GraphExec& exec) {
  for (const ExecNode& node : exec.body->nodes) {
    if (node.type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    if (const auto& changes = static_cast<const KernelCommand&>(*node.command).changes()) changes->Upload();
  }
  if (exec.device_graph != nullptr) exec.uploaded = std::make_shared<ExecBody>(*exec.body);
}

GraphRun::GraphRun(GraphExecPtr exec) : running_(std::move(exec)) {
  std::lock_guard lock(GetDriver().graph_mutex);
  if (running_ != nullptr) running_->in_flight = true;
}

GraphRun::~GraphRun() {
  std::lock_guard lock(GetDriver().graph_mutex);
  Ended();
  for (const auto* rest : {&launched_, &tails_}) {  // of a context that is broken
    for (const GraphExecPtr& exec : *rest) exec->in_flight = false;
  }
}

void GraphRun::Ended() {
  if (running_ != nullptr && !again_) running_->in_flight = false;
  running_ = nullptr;
  again_ = false;
}

std::shared_ptr<ExecBody> GraphRun::Next() {
  std::lock_guard lock(GetDriver().graph_mutex);
  Ended();
  std::deque<GraphExecPtr>& from = launched_.empty() ? tails_ : launched_;
  if (from.empty()) return nullptr;
  running_ = from.front();
  from.pop_front();
  return running_->uploaded;
}

uint64_t GraphRun::current() const { return running_ == nullptr ? 0 : running_->device_graph->value(); }

uint32_t GraphRun::Launch(uint64_t graph, uint64_t how) {
  std::lock_guard lock(GetDriver().graph_mutex);
  const bool tail = how == kTail;
  if ((!tail && how != kFireAndForget && how != kSibling) || graph == 0) return kRequestInvalid;
  const GraphExecPtr exec = GetDriver().graph_execs.Find(graph);
  if (exec == nullptr || exec->device_graph == nullptr) return kNoSuchObject;
  if (exec->uploaded == nullptr) return kRequestInvalid;
  if (exec == running_) {
    if (!tail || again_) return kRequestInvalid;
    again_ = true;
  } else {
    if (exec->in_flight) return kRequestInvalid;
    exec->in_flight = true;
  }
  (tail ? tails_ : launched_).push_back(exec);
  return kRequestDone;
}

bool HasUpdatableNodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const GraphNodePtr& node) { return node->device_node != nullptr; });
}

bool MayBeUpdatable(const CUkernelNodeAttrValue& value) {
  const auto& wanted = value.deviceUpdatableKernelNode;
  return (wanted.deviceUpdatable == 0 || wanted.deviceUpdatable == 1) && wanted.devNode == nullptr;
}

CUresult SetUpdatable(GraphNode& node, CUkernelNodeAttrValue* value) {
  if (!MayBeUpdatable(*value)) return CUDA_ERROR_INVALID_VALUE;
  auto& wanted = value->deviceUpdatableKernelNode;
  if (wanted.deviceUpdatable == 0) return node.device_node == nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  if (node.device_node == nullptr) node.device_node = std::make_shared<DeviceHandle>();
  wanted.devNode = reinterpret_cast<CUgraphDeviceNode>(node.device_node->value());
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
