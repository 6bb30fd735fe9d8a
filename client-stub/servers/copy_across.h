// Copies in a process with several servers, where one end is device memory of a server other than that of the copy's stream.
//
// Bytes between two servers go through this process, piece by piece: a DMA into pinned memory of the source's session, a copy
// from there into pinned memory of the destination's session, and a DMA to the destination. The streams meet around each piece
// (stream_meeting.h), so the copy keeps its place in the stream it was given. A synchronous form waits, before the copy and after
// it, for all work of the contexts concerned, as natively (CUDA driver API, cuMemcpyPeer). Calling thread only.
#pragma once

#include <cuda.h>

#include <optional>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_bytes.h"

namespace tessera {

// Does the whole call as CopyBytes() or CopyBox() would. Nothing when all its memory belongs to the session of its stream: the
// call is then moved to that session, and nothing else is done. Only for processes with several servers.
std::optional<CUresult> CopyAcross(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form);
// A box between two servers is packed in pinned memory on its way. Its asynchronous forms return when the copy is done.
std::optional<CUresult> CopyBoxAcross(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows,
                                      SourceRead read);

// Does the whole call, wherever its memory is.
CUresult CopyBytesAnywhere(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form);
CUresult CopyBoxAnywhere(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows,
                         SourceRead read = SourceRead::kAsUsual);

}  // namespace tessera
