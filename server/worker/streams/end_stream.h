// The end of a stream of the session.
#pragma once

#include <cuda.h>

namespace tessera {

class Worker;  // ../worker.h

// The program destroys the stream, or the thread whose default stream it is has ended; what stands in it still runs to its end
// (CUDA Driver API, cuStreamDestroy). Waits for the context and the bill of the session's vGPU count that. The executor.
CUresult EndStream(Worker& worker, CUstream stream);

}  // namespace tessera
