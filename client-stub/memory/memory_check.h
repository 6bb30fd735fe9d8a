// Whether a call may use a piece of memory.
//
// The client knows its blocks, pools, variables, mappings and pinned memory. It checks them to the byte, as driver 580 does.
// (Measured on an H200: neither the rest of a page nor a neighbour may be used, but adjacent mappings may.) A program may know
// more addresses, such as a variable's that a kernel has told it. So before a call is refused the server is asked about an
// address that cannot be memory of this process.
#pragma once

#include <cstdint>
#include <optional>

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

// What [address, address + bytes) is to this call. `address` is already translated (ClientMemory::Translate). It asks the server
// only if the call would otherwise be refused, and never waits for work of the GPU. Calling thread only.
Place CheckMemory(BasicCall& call, uint64_t address, uint64_t bytes);

// Device memory at `address` that the server's driver knows but this process does not. nullopt: this process has memory of its
// own there. Calling thread only.
std::optional<Range> UntoldMemory(BasicCall& call, uint64_t address);

// Ends the call with CUDA_ERROR_INVALID_VALUE: it may not use [address, address + bytes). At level debug the log says what is
// known of it.
CUresult RefuseMemory(BasicCall& call, uint64_t address, uint64_t bytes);

// Replaces `address`, in pinned or registered memory that only this process has, by its mirror's, so that the server's driver can
// use it in a node of a graph or a texture. False: the call failed.
bool ReachForDevice(BasicCall& call, uint64_t* address);

}  // namespace tessera
