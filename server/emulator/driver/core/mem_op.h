// Stream memory operations: waiting for and writing 32- and 64-bit values in stream order.
// Source: CUDA driver API, "Stream Memory Operations".
#pragma once

#include <vector>

#include "server/emulator/driver/core/state.h"

namespace tessera::emulator {

class MemOpCommand : public Command {
 public:
  static CUresult Make(std::vector<CUstreamBatchMemOpParams> operations, std::shared_ptr<MemOpCommand>* command);
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
  CUresult Execute(Context& context) override;
  std::vector<CUstreamBatchMemOpParams>& operations() { return operations_; }
  const std::vector<CUstreamBatchMemOpParams>& operations() const { return operations_; }

 private:
  std::vector<CUstreamBatchMemOpParams> operations_;
};

}  // namespace tessera::emulator
