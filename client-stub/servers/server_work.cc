#include "client-stub/servers/server_work.h"

#include "client-stub/call/call.h"
#include "client-stub/session/client.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/stream_state.h"
#include "client-stub/streams/stream_visit.h"
#include "generated/client/copy.h"
#include "generated/client/stream.h"

namespace tessera {

ServerWork::ServerWork(const Context& context) : scope_(context), context_(context.handle) {
  result_ = HelperStreams::Process().Take(context, &stream_);
  if (result_ != CUDA_SUCCESS) return;
  call_ = std::make_unique<Call>(kInfo_cuMemcpyAsync, false);
  if (call_->ok()) call_->UseStream(object());
}

ServerWork::~ServerWork() {
  if (stream_.is_null()) return;
  if (call_ != nullptr && call_->ok()) {
    const auto give_back = [context = context_, stream = stream_](const GoOn& go_on) {
      go_on();
      HelperStreams::Process().Return(context, stream);
    };
    if (VisitStream(*call_, stream_, give_back) == CUDA_SUCCESS) return;
  }
  HelperStreams::Process().Return(context_, stream_);
}

CUresult DoElsewhere(Call& call, HandleId stream, const Context& context, const std::function<CUresult(ServerWork&)>& work) {
  CUresult result = CUDA_SUCCESS;
  {
    ServerWork other(context);
    result = other.result();
    if (result == CUDA_SUCCESS) result = MeetStreams(call, stream, other.call(), other.stream());
    if (result == CUDA_SUCCESS) result = work(other);
    if (result == CUDA_SUCCESS) result = MeetStreams(other.call(), other.stream(), call, stream);
  }
  return result == CUDA_SUCCESS ? result : call.FailElsewhere(result);
}

CUresult WaitForEventElsewhere(Call& call, CUstream stream, CUevent event) {
  const HandleId id(reinterpret_cast<uint64_t>(event));
  UsedStream used;
  if (!call.ok() || !UseStreamInfo(call, stream, &used)) return call.result();
  if (call.Fail(Captures().CheckUncapturable(used.ref)) != CUDA_SUCCESS) return call.result();
  if (call.Fail(Captures().CheckEventTime(id.value())) != CUDA_SUCCESS) return call.result();
  call.ActIn(used.info.context);
  const EventInfo* info = Events().Find(id);
  if (info == nullptr) return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  // An event that was never recorded, or is done, is nothing to wait for.
  if (!info->recorded.load(std::memory_order_relaxed) || info->KnownDone()) return CUDA_SUCCESS;
  const Context* context = Client::Get().FindContext(reinterpret_cast<CUcontext>(info->context.value()));
  if (context == nullptr || !context->active()) return call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUresult result = CUDA_SUCCESS;
  {
    ServerWork other(*context);
    result = other.result();
    if (result == CUDA_SUCCESS) result = Enter_cuStreamWaitEvent(false, other.object(), event, CU_EVENT_WAIT_DEFAULT);
    if (result == CUDA_SUCCESS) result = MeetStreams(other.call(), other.stream(), call, used.id);
  }
  return result == CUDA_SUCCESS ? result : call.FailElsewhere(result);
}

}  // namespace tessera
