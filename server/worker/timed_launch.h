// What handlers wrap around the driver's call that launches a kernel or a graph.
#pragma once

#include <cuda.h>

#include "server/worker/call_context.h"
#include "server/worker/gpu_times.h"
#include "server/worker/worker.h"

namespace tessera {

// Makes the call, measured while the session is traced. `name`: of the kernel, valid for the session. Executor and helper
// threads.
template <typename Call>
CUresult TimedLaunch(CallContext& call, const char* name, CUstream stream, const Call& launch) {
  Worker& worker = call.worker();
  if (!worker.trace().on()) [[likely]]
    return launch();
  const GpuTimes::Launch timed = worker.gpu_times().Before(stream);
  const CUresult result = launch();
  worker.gpu_times().After(timed, result, call.header().sequence, name, stream);
  return result;
}

}  // namespace tessera
