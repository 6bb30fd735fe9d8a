// Events on the driver.

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/completion.h"
#include "server/worker/streams/synchronize.h"
#include "server/worker/streams/watched_events.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_cuEventSynchronize(CallContext& call, const cuEventSynchronizeRequest& request) {
  const auto event = call.Use<CUevent>(request.hEvent);
  if (!call.ok()) return call.Finish(call.error());
  SynchronizeEvent(call, event);
}

void Do_cuEventDestroy_v2(CallContext& call, const cuEventDestroy_v2Request& request) {
  const auto event = call.Use<CUevent>(request.hEvent);
  if (!call.ok()) return call.Finish(call.error());
  call.Free(request.hEvent);
  Worker& worker = call.worker();
  if (!worker.Part<WatchedEvents>().IsWatched(event)) return call.Finish(call.driver().cuEventDestroy_v2(event));
  // Another thread of the application waits for it: destroyed when that wait has its answer.
  call.Finish(worker.completion().AfterEvent(worker.CurrentContext(), event,
                                             [&worker, event] { worker.driver().cuEventDestroy_v2(event); }));
}

}  // namespace tessera
