#include "server/emulator/driver/graphs/device_graphs.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "server/emulator/driver/core/copy.h"
#include "server/emulator/driver/core/kernel_command.h"

namespace tessera::emulator {
namespace {

// As far apart as driver 580 has them, in a part of the address space that it uses for them.
constexpr uint64_t kFirst = 0x7F7576C74300;
constexpr uint64_t kStep = 0xC0;

std::mutex& TakenMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::set<uint64_t>& Taken() {
  static auto* taken = new std::set<uint64_t>;
  return *taken;
}

// The streams for launches by kernels (cuda_device_runtime_api.h), and results of theirs.
constexpr uint64_t kTail = 0x0100000000000000, kFireAndForget = 0x0200000000000000, kSibling = 0x0300000000000000;
constexpr uint32_t kSuccess = 0, kInvalidValue = 1;

thread_local GraphRun* current_run = nullptr;

// By the handle of the node. With Driver::graph_mutex held.
std::map<uint64_t, std::weak_ptr<NodeChanges>>& Changes() {
  static auto* changes = new std::map<uint64_t, std::weak_ptr<NodeChanges>>;
  return *changes;
}

std::shared_ptr<NodeChanges> ChangesOf(uint64_t node) {
  std::lock_guard lock(GetDriver().graph_mutex);
  const auto found = Changes().find(node);
  return found == Changes().end() ? nullptr : found->second.lock();
}

bool CopiesOnDevice(const CopyCommand& copy) {
  for (const CopyCommand::Endpoint* end : {&copy.source(), &copy.destination()}) {
    if (end->array != nullptr || (end->is_host && end->pageable)) return false;
  }
  return true;
}

}  // namespace

DeviceHandle::DeviceHandle() {
  std::lock_guard lock(TakenMutex());
  value_ = kFirst;
  while (!Taken().insert(value_).second) value_ += kStep;
}

DeviceHandle::~DeviceHandle() {
  std::lock_guard lock(TakenMutex());
  Taken().erase(value_);
}

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

void NodeChanges::Upload() {
  std::lock_guard lock(mutex_);
  uploaded_ = true;
}

void NodeChanges::Reset() {
  std::lock_guard lock(mutex_);
  uploaded_ = false;
  enabled_ = true;
  grid_.reset();
  parameters_.clear();
}

uint32_t NodeChanges::SetParameter(uint64_t offset_bytes, std::span<const std::byte> value) {
  std::lock_guard lock(mutex_);
  if (!uploaded_ || value.size() > parameter_bytes_ || offset_bytes > parameter_bytes_ - value.size()) return kInvalidValue;
  parameters_.push_back({offset_bytes, {value.begin(), value.end()}});
  return kSuccess;
}

uint32_t NodeChanges::SetEnabled(bool enabled) {
  std::lock_guard lock(mutex_);
  if (!uploaded_) return kInvalidValue;
  enabled_ = enabled;
  return kSuccess;
}

uint32_t NodeChanges::SetGrid(const Dim3& grid) {
  std::lock_guard lock(mutex_);
  if (!uploaded_ || grid.x == 0 || grid.y == 0 || grid.z == 0) return kInvalidValue;
  grid_ = grid;
  return kSuccess;
}

bool NodeChanges::Apply(Dim3* grid, std::vector<std::byte>* parameters) {
  std::lock_guard lock(mutex_);
  if (grid_) *grid = *grid_;
  for (const Parameter& parameter : parameters_) {
    std::copy(parameter.value.begin(), parameter.value.end(),
              parameters->begin() + static_cast<std::ptrdiff_t>(parameter.offset_bytes));
  }
  return enabled_;
}

CommandPtr CommandOfInstance(const GraphNode& node) {
  if (node.device_node == nullptr) return node.command;
  const auto& kernel = static_cast<const KernelCommand&>(*node.command);
  const auto changes = std::make_shared<NodeChanges>(kernel.function()->info().parameter_bytes);
  Changes()[node.device_node->value()] = changes;
  return kernel.WithChanges(changes);
}

void Upload(GraphExec& exec) {
  for (const ExecNode& node : exec.body->nodes) {
    if (node.type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    if (const auto& changes = static_cast<const KernelCommand&>(*node.command).changes()) changes->Upload();
  }
  if (exec.device_graph != nullptr) exec.uploaded = std::make_shared<ExecBody>(*exec.body);
}

GraphRun::GraphRun(GraphExecPtr exec) : in_graph_(true), outer_(current_run), running_(std::move(exec)) {
  current_run = this;
  std::lock_guard lock(GetDriver().graph_mutex);
  if (running_ != nullptr) running_->in_flight = true;
}

GraphRun::~GraphRun() {
  if (!in_graph_) return;
  current_run = outer_;
  std::lock_guard lock(GetDriver().graph_mutex);
  Ended();
  for (const auto* rest : {&launched_, &tails_}) {  // of a context that is broken
    for (const GraphExecPtr& exec : *rest) exec->in_flight = false;
  }
}

GraphRun* GraphRun::Current() { return current_run; }

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
  if (!in_graph_ || (!tail && how != kFireAndForget && how != kSibling) || graph == 0) return kInvalidValue;
  const GraphExecPtr exec = GetDriver().graph_execs.Find(graph);
  if (exec == nullptr || exec->device_graph == nullptr) return kNoSuchObject;
  if (exec->uploaded == nullptr) return kInvalidValue;
  if (exec == running_) {
    if (!tail || again_) return kInvalidValue;
    again_ = true;
  } else {
    if (exec->in_flight) return kInvalidValue;
    exec->in_flight = true;
  }
  (tail ? tails_ : launched_).push_back(exec);
  return kSuccess;
}

uint32_t GraphRun::SetParameter(uint64_t node, uint64_t offset_bytes, std::span<const std::byte> value) {
  const auto changes = ChangesOf(node);
  return changes == nullptr ? kInvalidValue : changes->SetParameter(offset_bytes, value);
}

uint32_t GraphRun::SetEnabled(uint64_t node, bool enabled) {
  const auto changes = ChangesOf(node);
  return changes == nullptr ? kInvalidValue : changes->SetEnabled(enabled);
}

uint32_t GraphRun::SetGrid(uint64_t node, const Dim3& grid) {
  const auto changes = ChangesOf(node);
  return changes == nullptr ? kInvalidValue : changes->SetGrid(grid);
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
