// A kernel launch as a command.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "server/emulator/driver/code/module.h"

namespace tessera::emulator {

struct LaunchShape {
  Dim3 grid, block;
  unsigned shared_bytes = 0;
  bool cooperative = false;
  Dim3 cluster;  // 1x1x1 when none
};

class NodeChanges;  // kernel_requests.h

class KernelCommand : public Command {
 public:
  // Checks the launch as the driver does and packs its parameters. `params` or `extra`, as cuLaunchKernel takes them.
  static CUresult Make(const ContextPtr& context, CUfunction handle, const LaunchShape& shape, void** params, void** extra,
                       std::shared_ptr<KernelCommand>* command);
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_KERNEL; }
  CUresult Execute(Context& context) override;
  std::optional<uint64_t> paced_bytes() const override { return 0; }
  size_t local_bytes() const override { return function_->info().local_bytes; }

  // The same launch, as a node of an instance that kernels change.
  std::shared_ptr<KernelCommand> WithChanges(std::shared_ptr<NodeChanges> changes) const;
  // Null as a rule.
  const std::shared_ptr<NodeChanges>& changes() const { return changes_; }

  const LaunchShape& shape() const { return shape_; }
  const FunctionPtr& function() const { return function_; }
  CUfunction handle() const { return handle_; }
  // As cuGraphKernelNodeGetParams hands out; valid as long as the command.
  void** parameter_pointers() { return pointers_.data(); }

 private:
  CUfunction handle_ = nullptr;  // what the caller gave: a CUfunction or a CUkernel
  FunctionPtr function_;
  LaunchShape shape_;
  std::vector<std::byte> parameters_;
  std::vector<void*> pointers_;
  std::shared_ptr<NodeChanges> changes_;
};

// Most blocks of the function that one multiprocessor holds at once.
int ActiveBlocks(const KernelInfo& info, int block_threads, uint64_t dynamic_shared_bytes);

}  // namespace tessera::emulator
