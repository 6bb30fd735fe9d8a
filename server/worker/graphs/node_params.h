// Parameters of graph nodes between their wire form (protocol/wire/graph_params.h) and the driver's structs.
#pragma once

#include <cuda.h>

#include <span>
#include <vector>

#include "server/worker/call_context.h"

namespace tessera {

// A kernel node's parameters for the driver, with the memory they point to.
class KernelNodeParams {
 public:
  // Decodes what a client sent. False when the call has ended (malformed) or failed (see call.ok()).
  bool Decode(CallContext& call, std::span<const std::byte> params);
  const CUDA_KERNEL_NODE_PARAMS& get() const { return params_; }
  // The form without kernels, for drivers before 12.0; false when it cannot say what was asked.
  bool GetV1(CUDA_KERNEL_NODE_PARAMS_v1* params) const;

 private:
  CUDA_KERNEL_NODE_PARAMS params_{};
  std::vector<std::byte> packed_;
  std::vector<void*> pointers_;
};

// What the driver says of a kernel node, encoded. The parameters are copied out of the driver's memory.
CUresult EncodeKernelNode(CallContext& call, CUgraphNode node, std::vector<std::byte>* params);

// False as above. Host addresses must be memory that client and worker share.
bool DecodeMemcpyNode(CallContext& call, std::span<const std::byte> params, CUDA_MEMCPY3D* copy, CUcontext* context);
void EncodeMemcpyNode(CallContext& call, const CUDA_MEMCPY3D& copy, std::vector<std::byte>* params);

// A memset node. False as for KernelNodeParams.
bool DecodeMemsetNode(CallContext& call, std::span<const std::byte> params, CUDA_MEMSET_NODE_PARAMS* set, CUcontext* context);
CUresult EncodeMemsetNode(CallContext& call, CUgraphNode node, std::vector<std::byte>* params);

// A batch memory operation node, with its operations.
class MemOpNodeParams {
 public:
  // False as for KernelNodeParams. The operations' addresses must be the client's to reach.
  bool Decode(CallContext& call, std::span<const std::byte> params);
  const CUDA_BATCH_MEM_OP_NODE_PARAMS& get() const { return params_; }

 private:
  CUDA_BATCH_MEM_OP_NODE_PARAMS params_{};
  std::vector<CUstreamBatchMemOpParams> operations_;
};
CUresult EncodeMemOpNode(CallContext& call, CUgraphNode node, std::vector<std::byte>* params);

// A memory allocation node, with its access descriptors.
class AllocNodeParams {
 public:
  bool Decode(CallContext& call, std::span<const std::byte> params);  // false as for KernelNodeParams
  CUDA_MEM_ALLOC_NODE_PARAMS& get() { return params_; }

 private:
  CUDA_MEM_ALLOC_NODE_PARAMS params_{};
  std::vector<CUmemAccessDesc> access_;
};
CUresult EncodeAllocNode(CallContext& call, CUgraphNode node, std::vector<std::byte>* params);

}  // namespace tessera
