// Primary contexts on the driver.

#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/contexts/primary_contexts.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_cuDevicePrimaryCtxRetain(CallContext& call, const cuDevicePrimaryCtxRetainRequest& request) {
  call.Finish(call.worker().parts().primary_contexts().Retain(request.context, request.device, request.flags));
}

void Do_cuDevicePrimaryCtxRelease_v2(CallContext& call, const cuDevicePrimaryCtxRelease_v2Request& request) {
  call.Finish(call.worker().parts().primary_contexts().Release(request.device));
}

void Do_cuDevicePrimaryCtxReset_v2(CallContext& call, const cuDevicePrimaryCtxReset_v2Request& request) {
  call.Finish(call.worker().parts().primary_contexts().Reset(request.device));
}

}  // namespace tessera
