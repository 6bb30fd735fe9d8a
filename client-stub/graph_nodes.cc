#include "client-stub/graph_nodes.h"

#include <algorithm>

namespace tessera {

void** NodeParameters::Keep(HandleId node, const FunctionInfo& function, std::span<const std::byte> packed) {
  if (function.layout.empty()) return nullptr;
  MutexLock lock(mutex_);
  std::unique_ptr<Kept>& kept = nodes_[node.value()];
  if (kept == nullptr) kept = std::make_unique<Kept>();
  if (!std::equal(kept->packed.begin(), kept->packed.end(), packed.begin(), packed.end()) ||
      kept->pointers.size() != function.layout.size()) {
    kept->packed.assign(packed.begin(), packed.end());
    kept->pointers.clear();
    for (const ParameterSlot& slot : function.layout) kept->pointers.push_back(kept->packed.data() + slot.offset);
  }
  return kept->pointers.data();
}

void NodeParameters::Drop(HandleId node) {
  MutexLock lock(mutex_);
  nodes_.erase(node.value());
}

NodeParameters& NodeParametersOfProcess() {
  static auto* nodes = new NodeParameters;
  return *nodes;
}

SlotTable<GraphExecInfo>& GraphExecs() {
  static auto* execs = new SlotTable<GraphExecInfo>;
  return *execs;
}

bool UseNodes(Call& call, const CUgraphNode* nodes, size_t count, std::vector<HandleId>* ids) {
  if (count != 0 && nodes == nullptr) call.Fail(CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; call.ok() && i < count; ++i) ids->push_back(call.Use(HandleKind::kGraphNode, nodes[i]));
  return call.ok();
}

}  // namespace tessera
