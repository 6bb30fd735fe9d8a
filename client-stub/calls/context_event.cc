// Events behind, and in front of, all work of a context or green context.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/session/client.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/idle_streams.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client/context.h"
#include "generated/client/green.h"

namespace tessera {
namespace {

// Null, and the call failed, unless the context can be used.
const Context* Usable(Call& call, const Context* context) {
  if (!call.ok()) return nullptr;
  if (context == nullptr) {
    call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  } else if (!context->active()) {
    call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }
  return call.ok() ? context : nullptr;
}

const Context* FindGreen(Call& call, CUgreenCtx handle) {
  if (!call.ok()) return nullptr;
  return Usable(call, call.session().contexts().FindGreen(HandleId(reinterpret_cast<uint64_t>(handle))));
}

const Context* FindUsable(Call& call, CUcontext handle) {
  return call.ok() ? Usable(call, call.session().contexts().Find(handle)) : nullptr;
}

// 900 when a stream of the context is captured: these captures are invalidated. Those of a primary context's green contexts
// go on (driver 580). Unlike other calls that concern a whole context these are not "potentially unsafe".
CUresult CheckCapturesOf(Call& call, const Context& context) {
  if (Captures().idle()) return CUDA_SUCCESS;
  return Captures().CheckContext(context.handle.value());
}

template <typename Request>
CUresult Record(Call& call, const Context* context, CUevent event, Request& request) {
  request.hEvent = call.Use(HandleKind::kEvent, event);
  if (!call.ok() || context == nullptr) return call.result();
  EventInfo* info = Events().Find(request.hEvent);
  if (info != nullptr && info->context != context->owner().handle) return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  if (const CUresult legal = CheckCapturesOf(call, *context); legal != CUDA_SUCCESS) return call.Fail(legal);
  Captures().ForgetEvent(request.hEvent.value());
  call.UseContextOf(context->handle);
  if (info != nullptr) call.Changes(&info->changed);
  const CUresult result = call.Sync(request);
  call.session().polls().Forget(request.hEvent.value());  // what a query knew was about the former record
  if (result == CUDA_SUCCESS && info != nullptr) info->recorded.store(true, std::memory_order_relaxed);
  return result;
}

template <typename Request>
CUresult Wait(Call& call, const Context* context, CUevent event, Request& request) {
  request.hEvent = call.Use(HandleKind::kEvent, event);
  if (!call.ok() || context == nullptr) return call.result();
  const CaptureTable::Caller relaxed{call.thread().number, CU_STREAM_CAPTURE_MODE_RELAXED};
  if (const CUresult legal = CheckCapturesOf(call, *context); legal != CUDA_SUCCESS) return call.Fail(legal);
  const CUresult captured = Captures().CheckEventQuery(relaxed, request.hEvent.value());
  if (captured != CUDA_SUCCESS) return call.Fail(captured);
  call.UseContextOf(context->handle);
  NoteUnnamedWork(call);
  return call.Sync(request);
}

}  // namespace

CUresult Custom_cuCtxRecordEvent(Call& call, CUcontext hCtx, CUevent hEvent) {
  cuCtxRecordEventRequest request;
  const Context* context = FindUsable(call, hCtx);
  if (context != nullptr) request.hCtx = context->handle;
  return Record(call, context, hEvent, request);
}

CUresult Custom_cuCtxWaitEvent(Call& call, CUcontext hCtx, CUevent hEvent) {
  cuCtxWaitEventRequest request;
  const Context* context = FindUsable(call, hCtx);
  if (context != nullptr) request.hCtx = context->handle;
  return Wait(call, context, hEvent, request);
}

CUresult Custom_cuGreenCtxRecordEvent(Call& call, CUgreenCtx hCtx, CUevent hEvent) {
  cuGreenCtxRecordEventRequest request;
  const Context* context = FindGreen(call, hCtx);
  if (context != nullptr) request.hCtx = context->green;
  return Record(call, context, hEvent, request);
}

CUresult Custom_cuGreenCtxWaitEvent(Call& call, CUgreenCtx hCtx, CUevent hEvent) {
  cuGreenCtxWaitEventRequest request;
  const Context* context = FindGreen(call, hCtx);
  if (context != nullptr) request.hCtx = context->green;
  return Wait(call, context, hEvent, request);
}

}  // namespace tessera
