#include "client-stub/graphs/graph_nodes.h"

#include <algorithm>

#include "client-stub/call/call.h"

namespace tessera {

NodeParameters::Kept& NodeParameters::KeepLocked(HandleId node, std::span<const std::byte> bytes) {
  std::unique_ptr<Kept>& kept = nodes_[node.value()];
  if (kept == nullptr) kept = std::make_unique<Kept>();
  if (!std::equal(kept->packed.begin(), kept->packed.end(), bytes.begin(), bytes.end())) {
    kept->packed.assign(bytes.begin(), bytes.end());
    kept->pointers.clear();
  }
  return *kept;
}

void** NodeParameters::Keep(HandleId node, const FunctionInfo& function, std::span<const std::byte> packed) {
  if (function.layout.empty()) return nullptr;
  MutexLock lock(mutex_);
  Kept& kept = KeepLocked(node, packed);
  if (kept.pointers.size() != function.layout.size()) {
    kept.pointers.clear();
    for (const ParameterSlot& slot : function.layout) kept.pointers.push_back(kept.packed.data() + slot.offset);
  }
  return kept.pointers.data();
}

std::byte* NodeParameters::KeepBytes(HandleId node, std::span<const std::byte> bytes) {
  MutexLock lock(mutex_);
  return KeepLocked(node, bytes).packed.data();
}

void NodeParameters::Drop(HandleId node) {
  MutexLock lock(mutex_);
  nodes_.erase(node.value());
}

bool UseNodes(Call& call, const CUgraphNode* nodes, size_t count, std::vector<HandleId>* ids) {
  if (count != 0 && nodes == nullptr) call.Fail(CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; call.ok() && i < count; ++i) ids->push_back(call.Use(HandleKind::kGraphNode, nodes[i]));
  return call.ok();
}

void EndHandles(Call& call, const Array<HandleId>& ended) {
  for (HandleId handle : ended) {
    NodeParametersOfProcess().Drop(handle);
    call.Release(handle);
  }
}

}  // namespace tessera
