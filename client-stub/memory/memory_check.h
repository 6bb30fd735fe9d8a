// Whether a call may use a piece of memory.
//
// The client knows what it was given: blocks, pools, variables, mappings and pinned memory are checked here to the byte
// that was asked for, as driver 580 checks them (measured on an H200: neither the rest of a page nor a neighbour may be
// used, mappings side by side may). A program can have more than that: the address of a variable that a kernel has told
// it. So an address where no memory of this process can be is put to the server before the call is refused.
#pragma once

#include <cstdint>
#include <optional>

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

// What [address, address + bytes) is to this call, whose `address` is already translated (ClientMemory::Translate). The
// call waits for an answer of the server only where it would be refused otherwise, and never for work of the GPU.
// Calling thread only.
Place CheckMemory(BasicCall& call, uint64_t address, uint64_t bytes);

// Memory of the device at `address` that the server's driver knows and this process was not told of. Nothing where this
// process has memory of its own. Calling thread only.
std::optional<Range> UntoldMemory(BasicCall& call, uint64_t address);

// Ends the call with CUDA_ERROR_INVALID_VALUE: [address, address + bytes) is no memory that it may use. The log says
// what is known of it (debug).
CUresult RefuseMemory(BasicCall& call, uint64_t address, uint64_t bytes);

// `address`, pinned or registered memory that only this process has, becomes one that the server's driver can use, in a node of a
// graph or a texture: that of its mirror. False: the call failed.
bool ReachForDevice(BasicCall& call, uint64_t* address);

}  // namespace tessera
