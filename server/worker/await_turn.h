// What handlers say right before they give the driver work that waits for its turn (spec column `work`).
#pragma once

#include <initializer_list>

#include "server/worker/call_context.h"
#include "server/worker/gate/gate.h"
#include "server/worker/worker.h"

namespace tessera {

// Returns when work may go into `stream` of the current context, or when the session has ended. `kind`: what makes two pieces of
// such work alike, that is, as long as one another. Executor thread, without any lock.
inline void AwaitTurn(CallContext& call, CUstream stream, std::initializer_list<uint64_t> kind) {
  Gate& gate = call.worker().gate();
  if (gate.closed()) [[unlikely]]
    gate.Await(stream, WorkKind(kind));
}

// The same for a kernel; Launched() follows the driver's call.
inline void AwaitLaunchTurn(CallContext& call, CUstream stream, std::initializer_list<uint64_t> kind) {
  Gate& gate = call.worker().gate();
  gate.CountKernel();
  if (gate.closed()) [[unlikely]]
    gate.AwaitLaunch(stream, WorkKind(kind));
}
inline CUresult Launched(CallContext& call, CUresult result) {
  call.worker().gate().Launched();
  return result;
}

}  // namespace tessera
