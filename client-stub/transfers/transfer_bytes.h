// The bytes of one copy in a row, in the order of its stream. Nothing of the call is checked. Calling thread only.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "client-stub/session/basic_call.h"
#include "generated/messages/copy.h"
#include "protocol/memory/copy_route.h"

namespace tessera {

// The record of a copy, or of a piece of one.
cuMemcpyAsyncRequest CopyRequest(HandleId stream, uint64_t to, uint64_t from, uint64_t bytes, CopyRoute route);

// Appends the record of a piece. `last`: it is the last one of its copy.
using SendPiece = std::function<CUresult(const cuMemcpyAsyncRequest& request, bool last)>;

// Copies from memory that only this process has to memory that the server reaches. The source has been read when it returns.
// `waits`: as in StagedUpload.
CUresult UploadBytes(BasicCall& call, HandleId stream, uint64_t to, const std::byte* from, uint64_t bytes, const SendPiece& send,
                     bool waits = true);
// Copies the other way. The destination has been written when it returns.
CUresult DownloadBytes(BasicCall& call, HandleId stream, std::byte* to, uint64_t from, uint64_t bytes, const SendPiece& send);

// Waits for the stream if its work may still write host memory of this process: ordinary memory must not be read before that.
CUresult WaitForHostWriters(BasicCall& call, HandleId stream);

}  // namespace tessera
