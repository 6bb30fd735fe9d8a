// Answers synchronising calls when the GPU has finished, while the executor goes on with other records.
//
// Normally a recorded event tells (completion.h). Once an image that can print is loaded the driver's own synchronise call
// is made too, on a helper thread, since that is where the driver writes the text of printf (CUDA programming guide,
// "Formatted Output"); the text is sent before the reply.
#pragma once

#include <cuda.h>

#include <functional>

#include "server/worker/call_context.h"

namespace tessera {

// Each ends the call, now or later. Executor or aside thread.
void SynchronizeStream(CallContext& call, CUstream stream);
void SynchronizeEvent(CallContext& call, CUevent event);
// All work of the calling thread's current context.
void SynchronizeContext(CallContext& call);

// Answer with the driver's word at once. After "not ready" the completion mark `mark` is sent when the work is done, with
// its result; or, where nobody can watch the work, soon and with a failure, so that the client asks again. 0: no mark.
void QueryEvent(CallContext& call, CUevent event, uint64_t mark);
void QueryStream(CallContext& call, CUstream stream, uint64_t mark);

// Waits for the stream in the driver itself, on a helper thread, and sends what kernels printed before it calls `done` there.
void SynchronizeOnHelper(Worker& worker, CUstream stream, const std::function<void(CUresult)>& done);

}  // namespace tessera
