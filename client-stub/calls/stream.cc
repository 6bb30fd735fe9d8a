// Streams: creating and asking about them is answered here, waiting for them by the server.

#include <algorithm>
#include <cstring>

#include "client-stub/call/call.h"
#include "client-stub/call/poll.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/servers/server_work.h"
#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/streams/idle_streams.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client_custom.h"
#include "protocol/runtime/client_support.h"

namespace tessera {
namespace {

// cuCtxGetStreamPriorityRange on every device since compute capability 7.0: 0 (least) to -5 (driver 580.159, H200).
constexpr int kPriorityGreatest = -5;

template <typename Request>
CUresult Create(Call& call, CUstream* stream, unsigned flags, int priority, Request& request) {
  if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const HandleId id = call.Mint(HandleKind::kStream);
  if (!call.ok()) return call.result();
  if (!Streams().Add(id, *call.thread().current(), flags, priority)) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  request.phStream = id;
  const CUresult result = call.Async(request);
  if (result != CUDA_SUCCESS) {
    Streams().Erase(id);
    return call.Fail(result);
  }
  if (StreamInfo* info = Streams().Find(id)) info->created.Raise(call.sequence());
  *stream = ToObject<CUstream>(id);
  return CUDA_SUCCESS;
}

// What driver 580.159 does with a question about a stream: the legacy stream must not be named while a blocking stream of
// its context is captured. Some questions are also refused for a captured stream itself, which invalidates the capture.
bool Ask(Call& call, CUstream stream, const void* answer, bool captured_is_legal, UsedStream* used) {
  if (!call.ok()) return false;
  if (answer == nullptr) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return false;
  }
  if (!UseStreamInfo(call, stream, used)) return false;
  bool capturing = false;
  return call.Fail(captured_is_legal ? Captures().CheckUse(used->ref, &capturing) : Captures().CheckUncapturable(used->ref)) ==
         CUDA_SUCCESS;
}

// Sends a request that enqueues something, or captures it.
template <typename Request>
CUresult Enqueue(Call& call, const UsedStream& stream, bool capturing, const Request& request) {
  if (!capturing) return call.Async(request);
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) Captures().SetUncertain(stream.ref);
  return result;
}

}  // namespace

CUresult Custom_cuStreamCreate(Call& call, CUstream* phStream, unsigned int Flags) {
  if (!call.ok()) return call.result();
  cuStreamCreateRequest request;
  request.Flags = Flags;
  return Create(call, phStream, Flags, 0, request);
}

CUresult Custom_cuStreamCreateWithPriority(Call& call, CUstream* phStream, unsigned int flags, int priority) {
  if (!call.ok()) return call.result();
  cuStreamCreateWithPriorityRequest request;
  request.flags = flags;
  request.priority = std::clamp(priority, kPriorityGreatest, 0);
  return Create(call, phStream, flags, request.priority, request);
}

CUresult Custom_cuStreamDestroy_v2(Call& call, CUstream hStream) {
  if (!call.ok()) return call.result();
  cuStreamDestroy_v2Request request;
  // The special streams cannot be destroyed: Free() knows no handle 0, 1 or 2.
  request.hStream = call.Free(HandleKind::kStream, hStream);
  if (!call.ok()) return call.result();
  if (const StreamInfo* info = Streams().Find(request.hStream)) call.UseContextOf(info->context);
  Streams().Erase(request.hStream);
  call.session().polls().Forget(request.hStream.value());
  return call.Async(request);
}

CUresult Custom_cuStreamGetPriority(Call& call, CUstream hStream, int* priority) {
  UsedStream stream;
  if (!Ask(call, hStream, priority, true, &stream)) return call.result();
  *priority = stream.info.priority;
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamGetId(Call& call, CUstream hStream, unsigned long long* streamId) {
  UsedStream stream;
  if (!Ask(call, hStream, streamId, false, &stream)) return call.result();
  *streamId = stream.info.number;
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamGetFlags(Call& call, CUstream hStream, unsigned int* flags) {
  UsedStream stream;
  if (!Ask(call, hStream, flags, false, &stream)) return call.result();
  *flags = stream.info.flags;
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamGetDevice(Call& call, CUstream hStream, CUdevice* device) {
  UsedStream stream;
  if (!Ask(call, hStream, device, false, &stream)) return call.result();
  *device = stream.info.device;
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamGetCtx(Call& call, CUstream hStream, CUcontext* pctx) {
  UsedStream stream;
  if (!Ask(call, hStream, pctx, true, &stream)) return call.result();
  *pctx = ToObject<CUcontext>(stream.info.context);
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamGetCtx_v2(Call& call, CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  UsedStream stream;
  // Either answer may be left out.
  const void* answer = pCtx != nullptr ? static_cast<void*>(pCtx) : pGreenCtx;
  if (!Ask(call, hStream, answer, true, &stream)) return call.result();
  const Context* context = call.session().contexts().Find(ToObject<CUcontext>(stream.info.context));
  if (pCtx != nullptr) *pCtx = context == nullptr ? nullptr : context->owner().object();
  if (pGreenCtx != nullptr) *pGreenCtx = context == nullptr ? nullptr : ToObject<CUgreenCtx>(context->green);
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamWaitEvent(Call& call, CUstream hStream, CUevent hEvent, unsigned int Flags) {
  if (!call.ok()) return call.result();
  if ((Flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (SeveralServers()) [[unlikely]] {
    call.RouteToHandle(hStream);
    Session* const owner = Client::Get().SessionOf(HandleId(reinterpret_cast<uint64_t>(hEvent)));
    if (owner != nullptr && owner != &call.session() && owner->handles().IsLive(HandleId(reinterpret_cast<uint64_t>(hEvent)))) {
      return WaitForEventElsewhere(call, hStream, hEvent);
    }
  }
  cuStreamWaitEventRequest request;
  request.hEvent = call.Use(HandleKind::kEvent, hEvent);
  UsedStream stream;
  if (!call.ok() || !UseStreamInfo(call, hStream, &stream)) return call.result();
  request.hStream = stream.id;
  request.Flags = Flags;
  const EventInfo* event = Events().Find(request.hEvent);
  const bool recorded = event == nullptr || event->recorded.load(std::memory_order_relaxed);
  const bool external = (Flags & CU_EVENT_WAIT_EXTERNAL) != 0;
  bool capturing = false;
  const CUresult legal = Captures().WaitEvent(stream.ref, request.hEvent.value(), recorded, external, &capturing);
  if (legal != CUDA_SUCCESS) return call.Fail(legal);
  // What another process records after this call has returned is not waited for.
  if (!capturing && event != nullptr && (event->flags & CU_EVENT_INTERPROCESS) != 0) return call.Sync(request);
  return Enqueue(call, stream, capturing, request);
}

CUresult Custom_cuStreamQuery(Call& call, CUstream hStream) {
  UsedStream stream;
  if (!call.ok() || !UseStreamInfo(call, hStream, &stream)) return call.result();
  const CUresult legal = Captures().CheckQuery(CallerOf(call.thread()), stream.ref);
  if (legal != CUDA_SUCCESS) return call.Fail(legal);
  if (call.thread().in_host_function && stream.info.fresh()) return call.FinishWork();
  cuStreamQueryRequest request;
  request.stream = stream.id;
  return Poll(call, PolledObject::kStream, stream.ref.key, request);
}

CUresult Custom_cuStreamSynchronize(Call& call, CUstream hStream) {
  UsedStream stream;
  if (!call.ok() || !UseStreamInfo(call, hStream, &stream)) return call.result();
  const CUresult legal = Captures().CheckQuery(CallerOf(call.thread()), stream.ref);
  if (legal != CUDA_SUCCESS) return call.Fail(legal);
  if (call.thread().in_host_function && stream.info.fresh()) return call.FinishWork();
  cuStreamSynchronizeRequest request;
  request.hStream = stream.id;
  const CUresult result = call.SyncWork(request);
  if (result == CUDA_SUCCESS) {
    NoteSynchronized(call, stream);
    call.session().memory().pools().AfterIdle(call, stream.ref.key);
  }
  return result;
}

CUresult Custom_cuLaunchHostFunc(Call& call, CUstream hStream, CUhostFn fn, void* userData) {
  if (!call.ok()) return call.result();
  if (fn == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  UsedStream stream;
  if (!UseStreamInfo(call, hStream, &stream)) return call.result();
  bool capturing = false;
  if (const CUresult legal = Captures().CheckUse(stream.ref, &capturing); legal != CUDA_SUCCESS) return call.Fail(legal);
  cuLaunchHostFuncRequest request;
  request.stream = stream.id;
  request.repeats = capturing;
  request.function = HostFunctionsOfProcess().Add({.function = fn, .user_data = userData, .repeats = capturing});
  const CUresult result = Enqueue(call, stream, capturing, request);
  if (result != CUDA_SUCCESS) HostFunctionsOfProcess().Drop(request.function);
  return result;
}

CUresult Custom_cuStreamAddCallback(Call& call, CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (callback == nullptr || flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  UsedStream stream;
  if (!UseStreamInfo(call, hStream, &stream)) return call.result();
  if (const CUresult legal = Captures().CheckUncapturable(stream.ref); legal != CUDA_SUCCESS) return call.Fail(legal);
  cuStreamAddCallbackRequest request;
  request.stream = stream.id;
  request.function = HostFunctionsOfProcess().Add({.callback = callback, .stream = hStream, .user_data = userData});
  const CUresult result = call.Async(request);
  if (result != CUDA_SUCCESS) HostFunctionsOfProcess().Drop(request.function);
  return result;
}

}  // namespace tessera
