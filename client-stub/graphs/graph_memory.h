// Memory of allocation nodes. The driver chooses the address when the node is made; it stays the graph's through every
// launch, whether memory lies there at the moment or not, so it stays known here as well.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-stub/call/call.h"

namespace tessera {

// Keeps the address of a new node from this process' own mappings and makes it known to copies and pointer questions.
// False (and a warning) when something of this process lies there already.
bool AdoptGraphMemory(Call& call, uint64_t address, uint64_t bytes, const CUmemPoolProps& properties);

// Whether the process ever had any: then whether a graph can be launched depends on what is allocated at the moment, and
// the launch itself has to say so.
bool AnyGraphMemory();
// For stream-ordered allocations of a captured stream.
void NoteGraphMemory();

}  // namespace tessera
