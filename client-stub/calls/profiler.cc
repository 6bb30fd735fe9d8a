// The profiler's switches: passed on to the server's driver, and the borders of a region of the statistics here.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/process/statistics.h"
#include "client-stub/session/client.h"
#include "generated/client_custom.h"
#include "generated/messages/entry.h"

namespace tessera {

// As every driver since CUDA 12: the profilers that read such configurations are gone.
CUresult Custom_cuProfilerInitialize(Call& call, const char*, const char*, CUoutput_mode) {
  return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult Custom_cuProfilerStart(Call& call) {
  const CUresult result = call.ok() ? call.Sync(cuProfilerStartRequest{}) : call.result();
  if (Statistics* statistics = Client::Get().statistics()) statistics->BeginRegion();
  return result;
}

CUresult Custom_cuProfilerStop(Call& call) {
  if (Statistics* statistics = Client::Get().statistics()) statistics->EndRegion();
  return call.ok() ? call.Sync(cuProfilerStopRequest{}) : call.result();
}

}  // namespace tessera
