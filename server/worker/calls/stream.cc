// Streams on the driver. Synchronising calls are answered by the completion thread (streams/synchronize.h).

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/gate/gate.h"
#include "server/worker/streams/end_stream.h"
#include "server/worker/streams/host_function.h"
#include "server/worker/streams/synchronize.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Ends a call that made `stream`, or failed to.
void EnterStream(CallContext& call, HandleId id, CUstream stream, unsigned flags, CUresult result) {
  if (result == CUDA_SUCCESS) {
    if ((flags & CU_STREAM_NON_BLOCKING) == 0) call.worker().implicit_order().NoteBlockingStream();
    call.New(id, stream);
  }
  call.Finish(result);
}

}  // namespace

void Do_cuStreamCreate(CallContext& call, const cuStreamCreateRequest& request) {
  CUstream stream = nullptr;
  const CUresult result = call.driver().cuStreamCreate(&stream, request.Flags);
  EnterStream(call, request.phStream, stream, request.Flags, result);
}

void Do_cuStreamCreateWithPriority(CallContext& call, const cuStreamCreateWithPriorityRequest& request) {
  CUstream stream = nullptr;
  const CUresult result = call.driver().cuStreamCreateWithPriority(&stream, request.flags, request.priority);
  EnterStream(call, request.phStream, stream, request.flags, result);
}

void Do_cuStreamDestroy_v2(CallContext& call, const cuStreamDestroy_v2Request& request) {
  const auto stream = call.Use<CUstream>(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  call.Free(request.hStream);
  call.Finish(EndStream(call.worker(), stream));
}

void Do_cuStreamQuery(CallContext& call, const cuStreamQueryRequest& request) {
  const CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  QueryStream(call, stream, request.mark);
}

void Do_cuStreamSynchronize(CallContext& call, const cuStreamSynchronizeRequest& request) {
  const CUstream stream = call.UseStream(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  SynchronizeStream(call, stream);
}

void Do_cuStreamWaitEvent(CallContext& call, const cuStreamWaitEventRequest& request) {
  const CUstream stream = call.UseStream(request.hStream);
  const auto event = call.Use<CUevent>(request.hEvent);
  if (!call.ok()) return call.Finish(call.error());
  call.worker().gate().BeforeWait(stream);
  call.Finish(call.driver().cuStreamWaitEvent(stream, event, request.Flags));
}

void Do_cuLaunchHostFunc(CallContext& call, const cuLaunchHostFuncRequest& request) {
  const CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  HostFunctions& functions = call.worker().parts().host_functions();
  call.Finish(functions.Launch(stream, request.function, HostFunctions::Form::kHostFunction, request.repeats != 0));
}

void Do_cuStreamAddCallback(CallContext& call, const cuStreamAddCallbackRequest& request) {
  const CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  HostFunctions& functions = call.worker().parts().host_functions();
  call.Finish(functions.Launch(stream, request.function, HostFunctions::Form::kCallback, false));
}

}  // namespace tessera
