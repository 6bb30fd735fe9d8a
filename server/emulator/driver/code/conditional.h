// Conditional nodes: the value that kernels set with cudaGraphSetConditional, and the handles that name it.
// Source: CUDA driver API, "Graph Management", cuGraphConditionalHandleCreate.
#pragma once

#include <atomic>
#include <memory>

#include "server/emulator/driver/core/state.h"

namespace tessera::emulator {

class Condition {
 public:
  Condition(uint64_t graph, uint64_t context, uint32_t initial, bool assign)
      : graph_(graph), context_(context), default_(initial), assign_(assign) {}
  uint64_t graph() const { return graph_; }
  uint64_t context() const { return context_; }
  // At the beginning of each launch.
  void Begin() {
    if (assign_) value = default_;
  }
  std::atomic<uint32_t> value{0};
  bool used = false;  // a node has it; guarded by Driver::graph_mutex

 private:
  const uint64_t graph_, context_;  // handles
  const uint32_t default_;
  const bool assign_;
};
using ConditionPtr = std::shared_ptr<Condition>;

// The handle by which programs name it.
CUgraphConditionalHandle AddCondition(ConditionPtr condition);
// Null for a handle that does not exist.
ConditionPtr FindCondition(CUgraphConditionalHandle handle);

// What kernels call.
class ConditionTable : public ConditionSink {
 public:
  bool Set(uint64_t handle, uint32_t value) override;
};

}  // namespace tessera::emulator
