// Sets that were captured before there was memory for them.
//
// The driver looks at what a captured set names when the graph is instantiated, and not before (measured: driver 580,
// H200): until then a program may give the node other memory (cuGraphMemsetNodeSetParams), as cuDNN does. The server's
// driver cannot tell whether an address is inside a block, since blocks share its allocations; this process can.
#pragma once

#include <cuda.h>

#include "client-stub/call/call.h"

namespace tessera {

// A set was captured whose memory is not known.
void NoteUncheckedSet();
// Before `graph` is instantiated: whether all its sets, those of its child graphs too, name memory that they may use.
// False: the call failed with CUDA_ERROR_INVALID_VALUE. Nothing to do in a process that never captured such a set.
// Calling thread only.
bool CheckCapturedSets(Call& call, CUgraph graph);

}  // namespace tessera
