// Stream memory operations (cuStreamWriteValue, cuStreamWaitValue, batches and graph nodes of them) on pinned memory.
#pragma once

#include <cuda.h>

#include "client-stub/call.h"

namespace tessera {

// Before an operation on `address` is sent. Without shared pages pinned memory gets a mirror (host_mirrors.h), around whose
// use the stream has to meet this process; waiting for a value in it fails the call with CUDA_ERROR_NOT_SUPPORTED: the stream
// would not see what the program writes. False when the call failed. Calling thread only.
bool ReachMemOp(Call& call, uint64_t address, bool waits);
// As above for one operation of a batch.
bool ReachMemOp(Call& call, const CUstreamBatchMemOpParams& operation);

}  // namespace tessera
