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

// The bytes of one copy between memory that only this process has and what the server reaches, in the order of `stream`
// (from staging): the source has been read when UploadBytes returns (`async`), the destination written when DownloadBytes
// does. Nothing is checked.
CUresult UploadBytes(Call& call, HandleId stream, uint64_t to, const std::byte* from, uint64_t bytes, bool async);
CUresult DownloadBytes(Call& call, HandleId stream, std::byte* to, uint64_t from, uint64_t bytes);

// Waits for the stream when something that was enqueued on it may still write host memory of this process: then ordinary
// memory must not be read before.
CUresult WaitForHostWriters(Call& call, HandleId stream);

}  // namespace tessera
