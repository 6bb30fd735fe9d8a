// Copies of two- and three-dimensional boxes between arrays, pitched device memory and host memory.
//
// Every form becomes one CUDA_MEMCPY3D. A box with an end in ordinary host memory is cut into sub-boxes. Each is at most one
// staging piece, in which its rows are packed without gaps. copy_bytes.h says when which form returns. Calling thread only.
#pragma once

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/copies/copy_bytes.h"

namespace tessera {

// Does the whole call and returns its result. `call` is one of the calls whose record is that of cuMemcpy3DAsync. `check_rows`:
// slices with fewer rows than are copied are an error (3D forms); 2D forms have no such field. `read` counts if `async` is true.
// `box.reserved0` and `reserved1`: of a peer copy, the ids of contexts other than the current one whose arrays its source and its
// destination are.
CUresult CopyBox(Call& call, const CUDA_MEMCPY3D& box, CUstream stream, bool async, bool check_rows,
                 SourceRead read = SourceRead::kAsUsual);

}  // namespace tessera
