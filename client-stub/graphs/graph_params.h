// Encodes the parameters of graph nodes: from the application's structs into their wire form (protocol/wire/graph_params.h).
// There is one function for each kind of node, for all calls that make or change such nodes. Each fails the call and returns
// false if the driver would refuse the parameters for a reason that only the client can see. Calling thread of the call.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/graphs/graph_shadow.h"
#include "client-stub/memory/client_memory.h"

namespace tessera {

// A node's parameters on their way to the server. This process may have set something up for them: host functions, shadows of
// host memory. The destructor gives that up, unless Sent() was called.
class NodeMessage {
 public:
  NodeMessage() = default;
  ~NodeMessage();
  NodeMessage(const NodeMessage&) = delete;
  NodeMessage& operator=(const NodeMessage&) = delete;

  std::vector<std::byte> bytes;
  // The parameters use this host function: its number in the table of the process (host_functions.h).
  void Owns(uint64_t function) { functions_.push_back(function); }
  // The server has the parameters.
  void Sent();
  // Makes the parameters of a copy, with what they need in this process. The message owns them.
  CopyNodeParams& Copy(Call& call);

 private:
  std::vector<uint64_t> functions_;
  std::unique_ptr<CopyNodeParams> copy_;
};

bool EncodeKernelNode(Call& call, const CUDA_KERNEL_NODE_PARAMS& params, NodeMessage* message);
bool EncodeMemcpyNode(Call& call, const CUDA_MEMCPY3D& copy, CUcontext context, NodeMessage* message);
// Whether the memset names memory that it may use. True: `place` says what it is, kDevice, kPinned or kPrivate. False: the call
// failed.
bool CheckSet(Call& call, const CUDA_MEMSET_NODE_PARAMS& set, Place* place);
bool EncodeMemsetNode(Call& call, const CUDA_MEMSET_NODE_PARAMS& set, CUcontext context, NodeMessage* message);
bool EncodeHostNode(Call& call, const CUDA_HOST_NODE_PARAMS& params, NodeMessage* message);
bool EncodeMemOpNode(Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, NodeMessage* message);
bool EncodeAllocNode(Call& call, const CUDA_MEM_ALLOC_NODE_PARAMS& params, NodeMessage* message);
// Encodes a node of the kind params.type.
bool EncodeNode(Call& call, const CUgraphNodeParams& params, NodeMessage* message);

}  // namespace tessera
