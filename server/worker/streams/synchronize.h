// Answers synchronising calls when the GPU has finished, while the executor goes on with other records.
//
// Normally a recorded event tells (completion.h). Once an image that can print is loaded the driver's own synchronise call
// is made too, on a helper thread, since that is where the driver writes the text of printf (CUDA programming guide,
// "Formatted Output"); the text is sent before the reply.
#pragma once

#include <cuda.h>

#include "server/worker/call_context.h"

namespace tessera {

// Each ends the call, now or later. Executor thread.
void SynchronizeStream(CallContext& call, CUstream stream);
void SynchronizeEvent(CallContext& call, CUevent event);
// All work of the calling thread's current context.
void SynchronizeContext(CallContext& call);

}  // namespace tessera
