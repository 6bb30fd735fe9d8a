// The memory of stream memory operations (cuStreamWriteValue, cuStreamWaitValue, and batches and graph nodes of them).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <vector>

#include "client-stub/session/basic_call.h"

namespace tessera {

// Before an operation on `*address` is sent. Refused is what driver 580 refuses (measured): an address that is in no memory of
// the program, or in managed or pool memory; of a `node` of a graph, captured ones too, it looks at no address. Pinned and
// registered memory that only this process has is used through its mirror (host_mirrors.h), around whose use the stream has to
// meet this process:
// `*address` becomes one of the server's. Waiting for a value in it fails the call with CUDA_ERROR_NOT_SUPPORTED: the stream
// would not see what the program writes. False when the call failed. Calling thread only.
bool ReachMemOp(BasicCall& call, uint64_t* address, bool waits, bool node);
// As above for copies of the operations of a batch. Check call.ok() afterwards.
std::vector<CUstreamBatchMemOpParams> ReachMemOps(BasicCall& call, std::span<const CUstreamBatchMemOpParams> operations,
                                                  bool node);

}  // namespace tessera
