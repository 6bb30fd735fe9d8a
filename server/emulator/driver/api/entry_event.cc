// Events.
#include "server/emulator/driver/core/event.h"

#include "server/emulator/driver/core/shared_event.h"
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/graphs/capture.h"

using namespace tessera::emulator;

namespace {

// Finds the event and refuses one whose last record belongs to a capture.
CUresult EnterEvent(CUevent handle, ContextPtr* context, EventPtr* event, bool invalidate = true) {
  RETURN_ON_ERROR(EnterContext(context));
  *event = GetDriver().events.Find(handle);
  RETURN_IF(*event == nullptr, CUDA_ERROR_INVALID_HANDLE);
  return CheckEventOutsideCapture(**event, invalidate);
}

CUresult ContextError(const Event& event) {
  const ContextPtr context = GetDriver().contexts.Find(event.context_handle());
  return context != nullptr ? context->sticky() : CUDA_SUCCESS;
}

CUresult ElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  ContextPtr context;
  EventPtr start, end;
  RETURN_IF(milliseconds == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(EnterEvent(start_handle, &context, &start, false));
  RETURN_ON_ERROR(EnterEvent(end_handle, &context, &end, false));
  const FencePtr first = start->record(), last = end->record();
  RETURN_IF(!start->timed() || !end->timed() || first == nullptr || last == nullptr, CUDA_ERROR_INVALID_HANDLE);
  RETURN_IF(!first->done() || !last->done(), CUDA_ERROR_NOT_READY);
  RETURN_ON_ERROR(context->sticky());
  *milliseconds = static_cast<float>((static_cast<double>(last->time_ns()) - static_cast<double>(first->time_ns())) * 1e-6);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  constexpr unsigned kFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  RETURN_IF(phEvent == nullptr || (Flags & ~kFlags) != 0, CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<SharedEvent> shared;
  if ((Flags & CU_EVENT_INTERPROCESS) != 0) {
    RETURN_IF((Flags & CU_EVENT_DISABLE_TIMING) == 0, CUDA_ERROR_INVALID_VALUE);
    shared = SharedEvent::Create();
    RETURN_IF(shared == nullptr, CUDA_ERROR_OUT_OF_MEMORY);
  }
  auto event = std::make_shared<Event>(context->owner_handle(), Flags, std::move(shared));
  *phEvent = reinterpret_cast<CUevent>(GetDriver().events.Add(std::move(event)));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
  ContextPtr context;
  RETURN_ON_ERROR(CurrentContext(&context));
  RETURN_IF(GetDriver().events.Remove(hEvent) == nullptr, CUDA_ERROR_INVALID_HANDLE);
  return context->sticky();
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF((flags & ~CU_EVENT_RECORD_EXTERNAL) != 0, CUDA_ERROR_INVALID_VALUE);
  const EventPtr event = GetDriver().events.Find(hEvent);
  RETURN_IF(event == nullptr || event->context_handle() != context->owner_handle(), CUDA_ERROR_INVALID_HANDLE);
  return RecordEvent(context, stream, event, flags);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) { return cuEventRecordWithFlags(hEvent, hStream, 0); }

CUresult cuEventQuery(CUevent hEvent) {
  ContextPtr context;
  EventPtr event;
  RETURN_ON_ERROR(EnterEvent(hEvent, &context, &event));
  RETURN_ON_ERROR(CheckUnsafeCall());
  // Of one record: another that comes in between may not be done, though this one is by now.
  for (FencePtr record; (record = event->record()) != nullptr;) {
    if (!record->done()) return CUDA_ERROR_NOT_READY;
    if (record == event->record()) break;
  }
  if (const auto& shared = event->shared(); shared != nullptr && !shared->Done(shared->newest())) return CUDA_ERROR_NOT_READY;
  return ContextError(*event);
}

CUresult cuEventSynchronize(CUevent hEvent) {
  ContextPtr context;
  EventPtr event;
  RETURN_ON_ERROR(EnterEvent(hEvent, &context, &event));
  RETURN_ON_ERROR(CheckUnsafeCall());
  if (const auto& shared = event->shared(); shared != nullptr) shared->Wait(shared->newest(), context->cancel_flag());
  const ContextPtr owner = GetDriver().contexts.Find(event->context_handle());
  return (owner != nullptr ? owner : context)->WaitFor(event->record());
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent hEvent) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  const EventPtr event = GetDriver().events.Find(hEvent);
  RETURN_IF(pHandle == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(event == nullptr || event->shared() == nullptr, CUDA_ERROR_INVALID_HANDLE);
  event->shared()->Tell(pHandle);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(phEvent == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto shared = SharedEvent::Open(handle);
  RETURN_IF(shared == nullptr, CUDA_ERROR_INVALID_HANDLE);
  constexpr unsigned kFlags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  auto event = std::make_shared<Event>(context->owner_handle(), kFlags, std::move(shared));
  *phEvent = reinterpret_cast<CUevent>(GetDriver().events.Add(std::move(event)));
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return ElapsedTime(pMilliseconds, hStart, hEnd);
}

CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return ElapsedTime(pMilliseconds, hStart, hEnd);
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF((Flags & ~CU_EVENT_WAIT_EXTERNAL) != 0, CUDA_ERROR_INVALID_VALUE);
  const EventPtr event = GetDriver().events.Find(hEvent);
  RETURN_IF(event == nullptr, CUDA_ERROR_INVALID_HANDLE);
  return WaitForEvent(context, stream, event, Flags);
}

}  // extern "C"
