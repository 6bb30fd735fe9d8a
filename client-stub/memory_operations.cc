#include "client-stub/memory_operations.h"

#include "client-stub/client_memory.h"
#include "client-stub/session.h"
#include "protocol/base/log.h"

namespace tessera {

bool ReachMemOp(Call& call, uint64_t address, bool waits) {
  ClientMemory& memory = ClientMemory::Of(call.session());
  if (!call.session().mirrored() || !memory.host().InWindow(address)) return call.ok();
  if (!waits) {
    memory.mirrors().Reach(call, address);
    return call.ok();
  }
  LogWarning("{}: the server does not see what this program writes to host memory while a stream waits for it: wait for an "
             "event, or for a value in device memory", call.info().name);
  return call.Fail(CUDA_ERROR_NOT_SUPPORTED) == CUDA_SUCCESS;
}

bool ReachMemOp(Call& call, const CUstreamBatchMemOpParams& operation) {
  switch (operation.operation) {  // where all forms have their address alike
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: return ReachMemOp(call, operation.waitValue.address, true);
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return call.ok();
    default: return ReachMemOp(call, operation.waitValue.address, false);
  }
}

}  // namespace tessera
