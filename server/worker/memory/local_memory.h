// Work for which a context may get more local memory for the threads of its kernels: counted before the driver is asked
// (limit_charges.h). Executor and helper threads; what is current there changes and is then the record's context again.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

#include "protocol/wire/handle.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/graph_needs.h"

namespace tessera {

// The result of `work`. CUDA_ERROR_OUT_OF_MEMORY, and it was not called, where the session may not hold what that takes. May
// block for some seconds then.
CUresult WithLocalMemory(CallContext& call, const LocalNeeds& needs, const std::function<CUresult()>& work);

// Whether so much is what a context of the session has of its own, so that nothing is counted for it, whatever becomes of limits.
// True of one that has ended. It is the current one afterwards.
bool IsOwnLocalMemory(CallContext& call, HandleId context, uint64_t local_bytes);

// The launch of a kernel that has local memory, in the record's context, around the driver's call:
//
//   LocalLaunch local;
//   do {
//     if (!local.Begin(call, stream, local_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
//     result = ...
//   } while (local.End(call, result));
class LocalLaunch {
 public:
  // False: the session may not hold what it takes. It takes nothing where the context has that, or `stream` captures it.
  bool Begin(CallContext& call, CUstream stream, uint64_t local_bytes);
  // True: the device had not so much, and there is room now.
  bool End(CallContext& call, CUresult result);

 private:
  bool counted_ = false;
  bool again_ = false;
};

}  // namespace tessera
