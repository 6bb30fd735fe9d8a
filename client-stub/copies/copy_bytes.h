// Copies of bytes in a row: decides by the two addresses how the bytes travel, and when the call may return.
//
//   from \ to        device or pinned                       other host memory
//   device, pinned   one record, DMA on the server          staged pieces, copied out; returns when all have arrived
//   other host       in the record, or staged pieces;       here, after the stream's work
//                    returns when the source was read
//
// "pinned" is what the server's driver reaches. Pinned memory that only this process has (registered memory, and all of it over
// a mirrored channel) is other host memory, but asynchronous forms read and write it when the stream reaches the copy
// (copy_in_order.h); small ones without a visit where none is needed (deliveries.h, idle_streams.h).
// When which form returns: CUDA Driver API, "API synchronization behavior". Calling thread only.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "client-stub/call/call.h"

namespace tessera {

// When an asynchronous copy reads its source (CUmemcpySrcAccessOrder).
enum class SourceRead : uint8_t {
  kAsUsual,        // ordinary memory before the call returns, all other when the stream reaches the copy
  kInCall,         // any source before the call returns
  kInStreamOrder,  // any source when the stream reaches the copy; for ordinary memory the call waits for that, as natively
};

struct CopyForm {
  bool async = false;
  // Ordinary host memory is CUDA_ERROR_INVALID_VALUE where the form takes a device pointer.
  bool device_to = false;
  bool device_from = false;
  SourceRead read = SourceRead::kAsUsual;  // of an asynchronous form
};

// The whole call: checks, sends, waits. `call` is one of the calls whose record is that of cuMemcpyAsync.
CUresult CopyBytes(Call& call, uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, const CopyForm& form);

}  // namespace tessera
