// The client's word that one of its threads has ended.

#include "generated/messages/service.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/streams/end_stream.h"
#include "server/worker/thread_streams.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_tesseraThreadEnded(CallContext& call, const tesseraThreadEndedRequest& request) {
  for (CUstream stream : call.worker().thread_streams().EndThread(request.thread)) EndStream(call.worker(), stream);
  call.Finish(CUDA_SUCCESS);
}

}  // namespace tessera
