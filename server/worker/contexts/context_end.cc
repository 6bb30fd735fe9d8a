#include "server/worker/contexts/context_end.h"

#include "generated/driver_table.h"
#include "server/worker/completion.h"
#include "server/worker/done_words.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/gpu_times.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/object_table.h"
#include "server/worker/sharing/sharing.h"
#include "server/worker/streams/stream_visits.h"
#include "server/worker/thread_streams.h"
#include "server/worker/worker.h"

namespace tessera {

CUresult PrepareContextEnd(Worker& worker, HandleId id, CUcontext context) {
  CUresult work = worker.SetContext(context);
  if (work == CUDA_SUCCESS) work = worker.driver().cuCtxSynchronize();
  worker.DrainDeviceOutput();
  worker.completion().DrainContext(context);
  worker.gate().idle_watch().ForgetContext(context);
  worker.gate().held_streams().StreamGoes();
  BusyStreams& busy = worker.busy_streams();
  for (const auto& [thread, stream] : worker.thread_streams().OfContext(context)) busy.Forget(stream);
  worker.thread_streams().EndContext(context);
  worker.objects().RemoveOwned(id, [&](HandleId object_id, uint64_t object) {
    if (object_id.kind() == HandleKind::kStream) busy.Forget(reinterpret_cast<CUstream>(object));
  });
  worker.parts().stream_visits().EndContext(context);
  worker.gpu_times().EndContext(context);
  worker.done_words().EndContext(context);
  worker.parts().sharing().EndContext(id);
  worker.parts().memory().EndContext(id.value());
  // A helper thread may have shared a block between the two: it holds memory that is counted no more.
  worker.parts().sharing().EndContext(id);
  worker.SetContext(CUcontext(nullptr));
  return work;
}

void FinishContextEnd(Worker& worker, HandleId id) {
  worker.objects().Remove(id);
  worker.ForgetCurrentContexts();
}

}  // namespace tessera
