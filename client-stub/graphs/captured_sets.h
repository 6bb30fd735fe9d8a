// Checks memset nodes that a stream captured before their memory existed.
//
// The driver checks the memory of a captured memset only when the graph is instantiated (measured: driver 580, H200). Until then
// a program may give the node other memory (cuGraphMemsetNodeSetParams), as cuDNN does. This process has to make the check: it
// knows its blocks of memory, while to the server's driver several blocks are one allocation.
#pragma once

#include <cuda.h>

#include "client-stub/call/call.h"

namespace tessera {

// Notes that the program captured a memset whose memory this process does not know yet. Any thread.
void NoteUncheckedSet();
// Whether all memset nodes of `graph` and its child graphs name memory that they may use. Called before `graph` is instantiated
// or updates an instance. False: the call failed, with CUDA_ERROR_INVALID_VALUE for such memory. Returns true at once if the
// process never captured such a memset. Calling thread only.
bool CheckCapturedSets(Call& call, CUgraph graph);

}  // namespace tessera
