// Copies of two- and three-dimensional boxes between arrays, pitched device memory and host memory.
//
// Every form becomes one CUDA_MEMCPY3D. A box with an end in ordinary host memory is cut into sub-boxes of at most a staging
// piece, whose rows are packed there without gaps. When which form returns: as copy_bytes.h. Calling thread only.
#pragma once

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_bytes.h"

namespace tessera {

// The whole call. `call` is one of the calls whose record is that of cuMemcpy3DAsync. `check_rows`: a slice of fewer rows
// than are copied is an error (3D forms); the 2D forms have no such field. `read`: of an asynchronous form.
CUresult CopyBox(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows,
                 SourceRead read = SourceRead::kAsUsual);

}  // namespace tessera
