// Copies with an end in device memory of a server other than the one that has the copy's stream, when the process has several.
//
// Bytes between two servers go through this process: a DMA into pinned memory of the one session, from there into pinned memory
// of the other, a DMA to the destination, a piece after the other. The streams meet around each piece (stream_meeting.h), so
// the order is that of the stream the copy was given. A synchronous form waits, before it and after it, for all work of the
// contexts concerned, as natively (CUDA driver API, cuMemcpyPeer). Calling thread only.
#pragma once

#include <cuda.h>

#include <optional>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_bytes.h"

namespace tessera {

// The whole call, as CopyBytes() and CopyBox(), or nothing when all its memory belongs to the session of its stream, to which
// the call is moved. With several servers only.
std::optional<CUresult> CopyAcross(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form);
// Between two servers the box is packed in pinned memory on its way, and asynchronous forms return when it is done.
std::optional<CUresult> CopyBoxAcross(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows,
                                      SourceRead read);

// The whole call, wherever its memory is.
CUresult CopyBytesAnywhere(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form);
CUresult CopyBoxAnywhere(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows,
                         SourceRead read = SourceRead::kAsUsual);

}  // namespace tessera
