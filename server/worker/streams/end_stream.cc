#include "server/worker/streams/end_stream.h"

#include "generated/driver_table.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/worker.h"

namespace tessera {

CUresult EndStream(Worker& worker, CUstream stream) {
  const DriverTable& driver = worker.driver();
  BusyStreams& busy = worker.busy_streams();
  Gate& gate = worker.gate();
  CUcontext context = nullptr;
  const bool works =
      driver.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY && driver.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS;
  if (works) busy.NoteOrphan(context);
  busy.Forget(stream);
  gate.held_streams().StreamGoes();
  return works && gate.DestroysWhenDone(stream, context) ? CUDA_SUCCESS : driver.cuStreamDestroy_v2(stream);
}

}  // namespace tessera
