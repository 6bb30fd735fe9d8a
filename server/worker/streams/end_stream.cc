#include "server/worker/streams/end_stream.h"

#include "generated/driver_table.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Asking such a stream for its work would invalidate the capture that it takes part in (CUDA Driver API, cuStreamQuery).
bool Captures(const DriverTable& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

CUresult EndStream(Worker& worker, CUstream stream) {
  const DriverTable& driver = worker.driver();
  BusyStreams& busy = worker.busy_streams();
  Gate& gate = worker.gate();
  CUcontext context = nullptr;
  // What a captured stream was given before may still run; its mark tells (IdleWatch).
  const bool captured = Captures(driver, stream);
  const bool works = (captured || driver.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) &&
                     driver.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS;
  if (works) busy.NoteOrphan(context);
  busy.Forget(stream);
  gate.held_streams().StreamGoes();
  gate.idle_watch().StreamGoes(stream);
  // One that is destroyed later is asked until then.
  return works && !captured && gate.DestroysWhenDone(stream, context) ? CUDA_SUCCESS : driver.cuStreamDestroy_v2(stream);
}

}  // namespace tessera
