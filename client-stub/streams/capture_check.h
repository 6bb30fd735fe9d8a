// The legality checks that every call passes while a stream is being captured (capture.h). Free when none is.
#pragma once

#include <cuda.h>

#include "client-stub/session/basic_call.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/capture.h"

namespace tessera {

inline CaptureTable::Caller CallerOf(const ThreadState& thread) { return {thread.number, thread.capture_mode}; }

// For rows with capture = "unsafe": what Call's constructor asks. 900 when a capture forbids the call, and invalidates it.
// Driver 580.159 treats as unsafe: allocation and release of device, pinned, managed, array and pool memory, host
// registration, memory advice, pool attributes, pointer attributes, context limits and cache configuration, texture and
// surface objects, module and library unload, queries and synchronisation of streams and events, graph instantiation and
// exec destruction. Not unsafe: module and library load, virtual memory management, cuMemGetInfo, cuEventElapsedTime.
CUresult CheckCapture(const CallInfo& info, ThreadState& thread);

// For rows with capture = "legal": what Call::UseStream asks, with nullptr also for calls that use the legacy stream without
// naming it (synchronous copies and sets). `capturing`: the call becomes a node of a graph and is sent synchronously, so
// that its own error comes back from it.
CUresult CheckStreamUse(BasicCall& call, CUstream stream, bool* capturing);
// A call that was sent for a captured stream failed: the server may have invalidated the capture.
void NoteCaptureFailure(BasicCall& call, CUstream stream);

}  // namespace tessera
