// Copies between memory that the server reaches and private memory of the application, which happen when the stream reaches
// them: asynchronous copies of registered memory, as far as there is no quicker way (copy_bytes.h).
//
// The copy is cut into pieces that pass through the places of a shadow in turn. Each piece is a visit and a DMA. Visits are asked
// for as far ahead as there are places, so that pieces are copied by the processor, and travel, while the DMAs of others run; a
// stream waits for one only where its place or its bytes are needed. The caller waits for nothing; stream order holds for
// whatever comes after. Calling thread only; the private memory is touched by visits.
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
