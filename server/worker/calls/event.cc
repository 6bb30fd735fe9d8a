// Events on the driver.

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/sharing/sharing.h"
#include "server/worker/streams/synchronize.h"
#include "server/worker/streams/watched_events.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_cuEventRecord(CallContext& call, const cuEventRecordRequest& request) {
  const auto event = call.Use<CUevent>(request.hEvent);
  const CUstream stream = call.UseStream(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().parts().watched_events().BeforeRecord(event, stream);
  call.Finish(call.driver().cuEventRecord(event, stream));
}

void Do_cuEventRecordWithFlags(CallContext& call, const cuEventRecordWithFlagsRequest& request) {
  const auto event = call.Use<CUevent>(request.hEvent);
  const CUstream stream = call.UseStream(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().parts().watched_events().BeforeRecord(event, stream);
  call.Finish(call.driver().cuEventRecordWithFlags(event, stream, request.flags));
}

void Do_cuEventQuery(CallContext& call, const cuEventQueryRequest& request) {
  const auto event = call.Use<CUevent>(request.event);
  if (!call.ok()) return call.Finish(call.error());
  QueryEvent(call, event, request.mark);
}

void Do_cuEventSynchronize(CallContext& call, const cuEventSynchronizeRequest& request) {
  const auto event = call.Use<CUevent>(request.hEvent);
  if (!call.ok()) return call.Finish(call.error());
  SynchronizeEvent(call, event);
}

void Do_cuEventDestroy_v2(CallContext& call, const cuEventDestroy_v2Request& request) {
  const auto event = call.Use<CUevent>(request.hEvent);
  if (!call.ok()) return call.Finish(call.error());
  call.Free(request.hEvent);
  call.worker().parts().sharing().ForgetEvent(event);
  call.Finish(call.worker().parts().watched_events().Destroy(event));
}

}  // namespace tessera
