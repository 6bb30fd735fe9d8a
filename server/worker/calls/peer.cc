// Access between devices. Memory of the device heap is mapped, so the driver's own switch does not reach it: the heap's
// blocks are opened to the other device as well.

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// The devices of the current context, which is to reach, and of `peer`, whose memory is reached.
CUresult Devices(CallContext& call, CUcontext peer, CUdevice* accessor, CUdevice* owner) {
  const CUcontext current = call.worker().CurrentContext();
  CUresult result = call.driver().cuCtxGetDevice(accessor);
  if (result != CUDA_SUCCESS) return result;
  result = call.worker().SetContext(peer);
  if (result == CUDA_SUCCESS) result = call.driver().cuCtxGetDevice(owner);
  const CUresult restored = call.worker().SetContext(current);
  return result != CUDA_SUCCESS ? result : restored;
}

}  // namespace

void Do_cuCtxEnablePeerAccess(CallContext& call, const cuCtxEnablePeerAccessRequest& request) {
  const auto peer = call.Use<CUcontext>(request.peerContext);
  if (!call.ok()) return call.Finish(call.error());
  CUdevice accessor = 0;
  CUdevice owner = 0;
  CUresult result = Devices(call, peer, &accessor, &owner);
  if (result == CUDA_SUCCESS) result = call.driver().cuCtxEnablePeerAccess(peer, request.Flags);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  result = call.worker().parts().memory().heap().SetPeerAccess(owner, accessor, true);
  if (result != CUDA_SUCCESS) call.driver().cuCtxDisablePeerAccess(peer);
  call.Finish(result);
}

void Do_cuCtxDisablePeerAccess(CallContext& call, const cuCtxDisablePeerAccessRequest& request) {
  const auto peer = call.Use<CUcontext>(request.peerContext);
  if (!call.ok()) return call.Finish(call.error());
  CUdevice accessor = 0;
  CUdevice owner = 0;
  CUresult result = Devices(call, peer, &accessor, &owner);
  if (result == CUDA_SUCCESS) result = call.driver().cuCtxDisablePeerAccess(peer);
  if (result == CUDA_SUCCESS) result = call.worker().parts().memory().heap().SetPeerAccess(owner, accessor, false);
  call.Finish(result);
}

}  // namespace tessera
