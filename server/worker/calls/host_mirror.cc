// Mirrors of pinned memory that the client has opened (server/worker/memory/worker_mirrors.h).

#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_tesseraMirrorOpen(CallContext& call, const tesseraMirrorOpenRequest& request) {
  WorkerMirrors& mirrors = call.worker().parts().memory().mirrors();
  call.Finish(mirrors.Open(call.holder().value(), Range{request.address, request.mirror_bytes}, request.generation));
}

void Do_tesseraMirrorClose(CallContext& call, const tesseraMirrorCloseRequest& request) {
  call.Finish(call.worker().parts().memory().mirrors().Close(request.address));
}

void Do_tesseraHostChangesTold(CallContext& call, const tesseraHostChangesToldRequest& request) {
  call.worker().parts().memory().mirrors().AwaitChanges(request.messages);
  call.Finish(CUDA_SUCCESS);
}

void Do_tesseraMirrorsUsed(CallContext& call, const tesseraMirrorsUsedRequest& request) {
  const CUstream stream = call.UseStream(request.stream);
  if (call.ok()) call.worker().parts().memory().mirrors().Used(call, request.stream, stream);
  call.Finish(CUDA_SUCCESS);
}

}  // namespace tessera
