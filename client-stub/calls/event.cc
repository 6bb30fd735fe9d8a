// Events: creating, recording and destroying them needs no answer; asking about their state does.

#include "client-stub/call/call.h"
#include "client-stub/call/poll.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/stream_state.h"
#include "client-stub/streams/stream_visit.h"
#include "generated/client_custom.h"
#include "protocol/runtime/client_support.h"

namespace tessera {
namespace {

// The event an application passed; the record is sent in the event's context when the thread has none.
HandleId UseEvent(Call& call, CUevent event) {
  const HandleId id = call.Use(HandleKind::kEvent, event);
  if (const EventInfo* info = call.ok() ? Events().Find(id) : nullptr) call.UseContextOf(info->context);
  return id;
}

bool EventFlagsAreLegal(unsigned flags) {
  constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if ((flags & ~kKnown) != 0) return false;
  return (flags & CU_EVENT_INTERPROCESS) == 0 || (flags & CU_EVENT_DISABLE_TIMING) != 0;
}

template <typename Request>
CUresult Record(Call& call, CUevent event, CUstream stream, unsigned flags, Request& request) {
  if (!call.ok()) return call.result();
  if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  request.hEvent = call.Use(HandleKind::kEvent, event);
  UsedStream used;
  if (!call.ok() || !UseStreamInfo(call, stream, &used)) return call.result();
  request.hStream = used.id;
  EventInfo* info = Events().Find(request.hEvent);
  if (info != nullptr && info->context != used.info.owner) return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  bool capturing = false;
  const bool external = (flags & CU_EVENT_RECORD_EXTERNAL) != 0;
  const CUresult legal = Captures().RecordEvent(request.hEvent.value(), used.ref, external, &capturing);
  if (legal != CUDA_SUCCESS) return call.Fail(legal);
  if (info != nullptr) call.Changes(&info->changed);
  if (capturing) {
    if (external) GraphRecords::Process().NoteEvents();
    const CUresult result = call.Sync(request);
    if (result != CUDA_SUCCESS) Captures().SetUncertain(used.ref);
    return result;
  }
  if (info != nullptr && !info->recorded.load(std::memory_order_relaxed)) {
    info->recorded.store(true, std::memory_order_relaxed);
  }
  // Another process may hear of the record as soon as this call has returned, and wait for it there: it must be in the driver.
  const bool seen_elsewhere = info != nullptr && (info->flags & CU_EVENT_INTERPROCESS) != 0;
  if (seen_elsewhere && !call.thread().in_host_function && call.session().memory().deliveries().used()) {
    // What it tells this one may know without asking its server: the stream waits until all that it has copied is here.
    const CUresult met = VisitStream(call, used.id, [](const GoOn& go_on) { go_on(); });
    if (met != CUDA_SUCCESS) return met;
  }
  const CUresult result = seen_elsewhere ? call.Sync(request) : call.Async(request);
  if (call.thread().in_host_function) {
    if (info != nullptr) info->changed_aside.Raise(call.session().last_sequence() + 1);
    if (StreamInfo* kept = Streams().Find(used.id)) kept->worked_aside.Raise(1);
  }
  call.session().polls().Forget(request.hEvent.value());  // after the record: a query in between was about the new work
  return result;
}

// The event of a question about its state; fails the call where a capture forbids to ask.
HandleId AskAbout(Call& call, CUevent event) {
  if (!call.ok()) return HandleId();
  const HandleId id = UseEvent(call, event);
  if (call.ok()) call.Fail(Captures().CheckEventQuery(CallerOf(call.thread()), id.value()));
  return id;
}

// A host function asks about an event that was never recorded: what the driver says of one is known, but the event's creation
// may stand in the ring of commands still.
bool NeedNotAsk(Call& call, const EventInfo* info) { return call.thread().in_host_function && info != nullptr && info->fresh(); }

template <typename Request, typename Reply>
CUresult Elapsed(Call& call, float* milliseconds, CUevent start, CUevent end) {
  if (!call.ok()) return call.result();
  Request request;
  request.hStart = UseEvent(call, start);
  request.hEnd = call.Use(HandleKind::kEvent, end);
  if (!call.ok()) return call.result();
  if (milliseconds == nullptr) return call.Fail(CUDA_ERROR_INVALID_HANDLE);  // as driver 580.159
  for (HandleId event : {request.hStart, request.hEnd}) {
    if (const CUresult legal = Captures().CheckEventTime(event.value()); legal != CUDA_SUCCESS) return call.Fail(legal);
    const EventInfo* info = Events().Find(event);
    if (NeedNotAsk(call, info)) return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  }
  Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *milliseconds = reply.pMilliseconds;
  return result;
}

}  // namespace

CUresult Custom_cuEventCreate(Call& call, CUevent* phEvent, unsigned int Flags) {
  if (!call.ok()) return call.result();
  if (phEvent == nullptr || !EventFlagsAreLegal(Flags)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuEventCreateRequest request;
  request.phEvent = call.Mint(HandleKind::kEvent);
  request.Flags = Flags;
  if (!call.ok()) return call.result();
  EventInfo* info = Events().Insert(request.phEvent, [&](EventInfo& event) { event.Begin(call.owner_context(), Flags, false); });
  if (info == nullptr) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  // Events for other processes may be refused by the device; all others only for want of memory.
  const bool sure = (Flags & CU_EVENT_INTERPROCESS) == 0;
  const CUresult result = sure ? call.Async(request) : call.Sync(request);
  if (result != CUDA_SUCCESS) {
    Events().Erase(request.phEvent);
    return call.Fail(result);
  }
  info->named.Raise(call.sequence());
  *phEvent = ToObject<CUevent>(request.phEvent);
  return CUDA_SUCCESS;
}

CUresult Custom_cuEventDestroy_v2(Call& call, CUevent hEvent) {
  if (!call.ok()) return call.result();
  cuEventDestroy_v2Request request;
  UseEvent(call, hEvent);
  request.hEvent = call.Free(HandleKind::kEvent, hEvent);
  if (!call.ok()) return call.result();
  Captures().ForgetEvent(request.hEvent.value());
  Events().Erase(request.hEvent);
  call.session().polls().Forget(request.hEvent.value());
  return call.Async(request);
}

CUresult Custom_cuEventRecord(Call& call, CUevent hEvent, CUstream hStream) {
  cuEventRecordRequest request;
  return Record(call, hEvent, hStream, CU_EVENT_RECORD_DEFAULT, request);
}

CUresult Custom_cuEventRecordWithFlags(Call& call, CUevent hEvent, CUstream hStream, unsigned int flags) {
  cuEventRecordWithFlagsRequest request;
  request.flags = flags;
  return Record(call, hEvent, hStream, flags, request);
}

CUresult Custom_cuEventQuery(Call& call, CUevent hEvent) {
  cuEventQueryRequest request;
  request.event = AskAbout(call, hEvent);
  if (!call.ok()) return call.result();
  // Another process may record an interprocess event again, unseen from here.
  EventInfo* info = Events().Find(request.event);
  if (info == nullptr || info->interprocess()) return call.SyncWork(request);
  if (info->KnownDone() || NeedNotAsk(call, info)) return call.FinishWork();
  const uint64_t sent = call.session().last_sequence();
  bool asked = false;
  const CUresult result = Poll(call, PolledObject::kEvent, request.event.value(), request, &asked);
  if (result == CUDA_SUCCESS && asked) info->done.Raise(sent);
  return result;
}

CUresult Custom_cuEventSynchronize(Call& call, CUevent hEvent) {
  cuEventSynchronizeRequest request;
  request.hEvent = AskAbout(call, hEvent);
  if (!call.ok()) return call.result();
  const EventInfo* info = Events().Find(request.hEvent);
  if (NeedNotAsk(call, info)) return call.FinishWork();
  return call.SyncWork(request);
}

CUresult Custom_cuEventElapsedTime(Call& call, float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return Elapsed<cuEventElapsedTimeRequest, cuEventElapsedTimeReply>(call, pMilliseconds, hStart, hEnd);
}

CUresult Custom_cuEventElapsedTime_v2(Call& call, float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return Elapsed<cuEventElapsedTime_v2Request, cuEventElapsedTime_v2Reply>(call, pMilliseconds, hStart, hEnd);
}

}  // namespace tessera
