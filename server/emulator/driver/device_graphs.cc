#include "server/emulator/driver/device_graphs.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "server/emulator/driver/copy.h"

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
