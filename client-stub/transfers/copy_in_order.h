// Copies between memory that the server reaches and private memory of the application, made when the stream reaches them. For
// asynchronous copies of registered memory, if there is no quicker way (copy_bytes.h).
//
// The copy is cut into pieces that pass through the places of a shadow in turn. Each piece is a visit and a DMA. Visits are
// requested as far ahead as there are places, so that some pieces are copied and travel while the DMAs of others run. A stream
// waits for a visit only when it needs its place or its bytes. The caller waits for nothing; stream order holds for what comes
// after. Calling thread only; visits touch the private memory.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "client-stub/session/basic_call.h"

namespace tessera {

struct OrderedPiece {
  uint64_t bytes = 0;
  // Copies the piece between the private memory and a shadow, on the visits' thread.
  std::function<void(std::byte* shadow)> move;
  // Appends the DMA between a shadow and its other end. `mark` (0: none) is passed when it is done.
  std::function<CUresult(uint64_t shadow, uint64_t mark)> send;
};

// Largest piece of a copy of so many bytes. Pieces of a large copy are few, since each takes some places in the queue of
// the server's driver, which has about a thousand for all streams.
uint64_t LargestPieceInOrder(Session& session, uint64_t bytes);

// To the server: the private memory is read.
CUresult UploadInOrder(BasicCall& call, HandleId stream, std::vector<OrderedPiece> pieces);
// From the server: the private memory is written.
CUresult DownloadInOrder(BasicCall& call, HandleId stream, std::vector<OrderedPiece> pieces);

}  // namespace tessera
