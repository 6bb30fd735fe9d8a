// Memory of allocation nodes. The driver chooses the address when the node is made. The address belongs to the graph through
// every launch, whether or not memory is there at the moment. So this process keeps it in its tables as well.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-stub/call/call.h"

namespace tessera {

// Reserves the address range of a new node: this process maps nothing else there, and copies and pointer queries know it.
// `bytes` and `properties` are those of the node. False, and a warning in the log: this process has something there already.
// Calling thread of the call.
bool AdoptGraphMemory(Call& call, uint64_t address, uint64_t bytes, const CUmemPoolProps& properties);

// Whether the process ever had such memory. If so, a launch may fail because of what is allocated at the moment, so each launch
// has to wait for its answer. Any thread.
bool AnyGraphMemory();
// Notes that the process has such memory, for a stream-ordered allocation in a captured stream. Any thread.
void NoteGraphMemory();

}  // namespace tessera
