#include "client-stub/managed/page_transfers.h"

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/process/cu_result.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/stream_state.h"
#include "client-stub/transfers/staged_transfer.h"
#include "client-stub/transfers/transfer_bytes.h"
#include "generated/client/context.h"
#include "generated/client/primary_context.h"
#include "generated/client/stream.h"
#include "generated/messages/copy.h"
#include "generated/messages/set.h"

namespace tessera {
namespace {

// Takes no failure that belongs to a call of the application's.
constexpr CallInfo kTransfer{"managed memory",
                             cuMemcpyAsyncRequest::kId,
                             CallInfo::Mode::kAsync,
                             CallInfo::Context::kRequired,
                             CallInfo::Capture::kLegal,
                             false,
                             ""};

}  // namespace

CUresult PageTransfers::Enter(HandleId context) {
  ThreadState& thread = ThreadState::Current();
  thread.capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUcontext wanted = reinterpret_cast<CUcontext>(context.value());
  if (context.is_null()) {
    const CUdevice device = session_.devices().OrdinalOf(0);
    Context* const primary = session_.contexts().Primary(device);
    if (primary == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    wanted = primary->object();
    if (!primary->active()) {
      if (const CUresult result = Enter_cuDevicePrimaryCtxRetain(false, &wanted, device); result != CUDA_SUCCESS) return result;
    }
  }
  const Context* const current = thread.current();
  return current != nullptr && current->object() == wanted && current->active() ? CUDA_SUCCESS
                                                                                : Enter_cuCtxSetCurrent(false, wanted);
}

CUresult PageTransfers::StreamOf(HandleId context, HandleId* stream) {
  if (const CUresult result = Enter(context); result != CUDA_SUCCESS) return result;
  HandleId& known = streams_[ThreadState::Current().current()->handle.value()];
  if (known.is_null() || !session_.handles().IsLive(known, HandleKind::kStream)) {
    CUstream made = nullptr;
    const CUresult result = Enter_cuStreamCreate(false, &made, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) return result;
    known = HandleId(reinterpret_cast<uint64_t>(made));
  }
  *stream = known;
  return CUDA_SUCCESS;
}

CUresult PageTransfers::Upload(HandleId context, uint64_t to, const std::byte* from, uint64_t bytes) {
  HandleId stream;
  if (const CUresult result = StreamOf(context, &stream); result != CUDA_SUCCESS) return result;
  Call call(kTransfer, false);
  if (!call.ok()) return call.result();
  return UploadBytes(call, stream, to, from, bytes, [&](const cuMemcpyAsyncRequest& request, bool) {
    // As what the program copies may have pointers in it.
    const CUresult opened = session_.memory().mirrors().OpenSeen(call, request.data);
    return opened == CUDA_SUCCESS ? call.AsyncOwn(request) : opened;
  });
}

CUresult PageTransfers::Clear(HandleId context, uint64_t address, uint64_t bytes) {
  cuMemsetD8AsyncRequest request;
  if (const CUresult result = StreamOf(context, &request.stream); result != CUDA_SUCCESS) return result;
  Call call(kTransfer, false);
  if (!call.ok()) return call.result();
  request.dst = address;
  request.element_bytes = 1;
  request.width = bytes;
  request.height = 1;
  return call.AsyncOwn(request);
}

CUresult PageTransfers::Finish(HandleId context) {
  HandleId stream;
  if (const CUresult result = StreamOf(context, &stream); result != CUDA_SUCCESS) return result;
  Call call(kTransfer, false);
  if (!call.ok()) return call.result();
  const CUresult result = WaitForStream(call, stream);
  if (result != CUDA_SUCCESS) return result;
  // What the uploads' own records failed with: this thread sends nothing else.
  return session_.deferred_errors().Take(ThreadState::Current().number, ThreadState::Current().current());
}

CUresult PageTransfers::Download(HandleId context, std::byte* to, uint64_t from, uint64_t bytes) {
  HandleId stream;
  if (const CUresult result = StreamOf(context, &stream); result != CUDA_SUCCESS) return result;
  Call call(kTransfer, false);
  if (!call.ok()) return call.result();
  return DownloadBytes(call, stream, to, from, bytes,
                       [&](const cuMemcpyAsyncRequest& request, bool) { return call.AsyncOwn(request); });
}

CUresult PageTransfers::Wait(const WorkedStream& worked) {
  const Context* const context = session_.contexts().Find(reinterpret_cast<CUcontext>(worked.context.value()));
  if (context == nullptr || !context->active()) return CUDA_SUCCESS;  // it has ended, its work is done
  if (const CUresult result = Enter(worked.context); result != CUDA_SUCCESS) return result;
  const bool special = worked.stream.value() <= reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
  if (special && !Captures().idle()) return CUDA_SUCCESS;
  if (special || session_.handles().IsLive(worked.stream, HandleKind::kStream)) {
    Call call(kTransfer, false);
    const HandleId stream = call.UseStream(reinterpret_cast<CUstream>(worked.stream.value()));
    if (call.capturing() || call.result() == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return CUDA_SUCCESS;
    if (!call.ok()) return call.result();
    const CUresult result = WaitForStream(call, stream);
    if (result != CUDA_ERROR_INVALID_HANDLE) return result;
  }
  // A stream that was destroyed: its work goes on.
  return Captures().idle() ? Enter_cuCtxSynchronize(false) : CUDA_SUCCESS;
}

}  // namespace tessera
