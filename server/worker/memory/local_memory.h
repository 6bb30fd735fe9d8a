// Work for which a context may get more local memory for the threads of its kernels. The memory is counted before the driver is
// asked (limit_charges.h). Executor and helper threads. The calling thread's current context changes meanwhile, and is the
// record's context again afterwards, unless a line says otherwise.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

#include "protocol/wire/handle.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/graph_needs.h"

namespace tessera {

// Returns the result of `work`, which needs `needs`. CUDA_ERROR_OUT_OF_MEMORY: the session may not hold what that takes, and
// `work` was not called, or the driver refused it. Before that the call may block for some seconds.
CUresult WithLocalMemory(CallContext& call, const LocalNeeds& needs, const std::function<CUresult()>& work);

// True: `context` has `local_bytes` for each thread of its own, so nothing is counted for them, however limits change. Also true
// of a context that has ended. `context` is current afterwards.
bool IsOwnLocalMemory(CallContext& call, HandleId context, uint64_t local_bytes);

// The launch of a kernel that has local memory, in the record's context. It encloses the driver's call:
//
//   LocalLaunch local;
//   do {
//     if (!local.Begin(call, stream, local_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
//     result = ...
//   } while (local.End(call, result));
class LocalLaunch {
 public:
  // False: the session may not hold what the launch takes. It takes nothing where the context has that much already, or where
  // `stream` captures the launch.
  bool Begin(CallContext& call, CUstream stream, uint64_t local_bytes);
  // True: launch once more, since the device had too little memory and there is room now.
  bool End(CallContext& call, CUresult result);

 private:
  bool counted_ = false;
  bool again_ = false;
};

}  // namespace tessera
