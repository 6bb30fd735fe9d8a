// Copies of bytes in a row. The two addresses decide how the bytes travel and when the call may return.
//
//   from \ to        device or pinned                       other host memory
//   device, pinned   one record, DMA on the server          staged pieces, copied out; returns when all have arrived
//   other host       in the record, or staged pieces;       here, after the stream's work
//                    returns when the source was read
//
// "pinned" is memory that the server's driver reaches. Some pinned memory only this process has: registered memory, and all of it
// over a mirrored channel. That is other host memory. But asynchronous forms read and write it when the stream reaches the copy
// (copy_in_order.h), small ones without a visit where none is needed (deliveries.h, idle_streams.h).
// When which form returns: CUDA Driver API, "API synchronization behavior". Calling thread only.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "client-stub/call/call.h"

namespace tessera {

// When an asynchronous copy reads its source (CUmemcpySrcAccessOrder).
enum class SourceRead : uint8_t {
  kAsUsual,        // ordinary memory before the call returns; other memory when the stream reaches the copy
  kInCall,         // any memory before the call returns
  kInStreamOrder,  // any memory when the stream reaches the copy; for ordinary memory the call waits until then, as natively
};

struct CopyForm {
  bool async = false;
  // The form takes a device pointer at this end. Ordinary host memory there is CUDA_ERROR_INVALID_VALUE.
  bool device_to = false;
  bool device_from = false;
  SourceRead read = SourceRead::kAsUsual;  // counts if `async` is true
};

// Does the whole call: checks, sends, waits. Returns its result; CUDA_ERROR_INVALID_VALUE: memory that the copy may not use.
// `call` is one of the calls whose record is that of cuMemcpyAsync. `to` and `from` are addresses as the application passed them.
CUresult CopyBytes(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form);

}  // namespace tessera
