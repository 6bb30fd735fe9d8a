// Copies of two- and three-dimensional boxes between arrays, pitched device memory and host memory.
//
// Every form becomes one CUDA_MEMCPY3D. A box with an end in ordinary host memory is cut into sub-boxes of at most a staging
// piece, whose rows are packed there without gaps. When which form returns: as copy_bytes.h. Calling thread only.
#pragma once

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_bytes.h"
#include "client-stub/copies/host_rows.h"

namespace tessera {

// The whole call. `call` is one of the calls whose record is that of cuMemcpy3DAsync. `check_rows`: a slice of fewer rows
// than are copied is an error (3D forms); the 2D forms have no such field. `read`: of an asynchronous form.
CUresult CopyBox(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows,
                 SourceRead read = SourceRead::kAsUsual);

// The ends of a copy that lie in memory that only this process has.
struct BoxEnds {
  bool from_private = false;
  bool to_private = false;
  bool pageable = false;  // a private end is not registered
  HostRows from, to;      // only what is private
  // Of the other ends, if they are no arrays: the addresses that the server knows them by.
  uint64_t from_base = 0;
  uint64_t to_base = 0;
};
// Looks at both ends and checks them; a box of no bytes has none. False when the call failed (CUDA_ERROR_INVALID_VALUE).
bool FindEnds(Call& call, const CUDA_MEMCPY3D& box, BoxEnds* ends);

// The 2D form's fields in the 3D form.
CUDA_MEMCPY3D BoxOf(const CUDA_MEMCPY2D& copy);

}  // namespace tessera
