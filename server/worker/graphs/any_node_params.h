// The parameters of a node of any kind as the driver's one struct, with the memory they point to.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <vector>

#include "server/worker/graphs/node_params.h"

namespace tessera {

class AnyNodeParams {
 public:
  // Decodes what a client sent for a node of kind `type` (CUgraphNodeType). False when the call has ended (malformed) or
  // failed (see call.ok()). Copies of memory that only the client has are not for here (host_copy_node.h).
  bool Decode(CallContext& call, uint32_t type, std::span<const std::byte> params);
  CUgraphNodeParams& get() { return params_; }
  // Of a kernel node.
  const CUDA_KERNEL_NODE_PARAMS& kernel() const { return kernel_.get(); }

 private:
  CUgraphNodeParams params_{};
  KernelNodeParams kernel_;
  MemOpNodeParams operations_;
  AllocNodeParams alloc_;
};

}  // namespace tessera
