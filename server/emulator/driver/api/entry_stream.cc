// Streams: creation, queries, host functions, attributes.
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/graphs/capture.h"

using namespace tessera::emulator;

namespace {

constexpr int kGreatestPriority = -5;

CUresult CreateStream(CUstream* out, unsigned flags, int priority) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(out == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0, CUDA_ERROR_INVALID_VALUE);
  const auto type = (flags & CU_STREAM_NON_BLOCKING) != 0 ? Stream::Type::kNonBlocking : Stream::Type::kBlocking;
  const StreamPtr stream = context->CreateStream(type, std::min(0, std::max(kGreatestPriority, priority)));
  *out = reinterpret_cast<CUstream>(stream->handle);
  return CUDA_SUCCESS;
}

class CallbackCommand : public Command {
 public:
  CallbackCommand(CUstreamCallback callback, CUstream stream, void* data) : callback_(callback), stream_(stream), data_(data) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  CUresult Execute(Context& context) override {
    context.FlushPrint();
    Call(context, CUDA_SUCCESS);
    return CUDA_SUCCESS;
  }
  // Natively a callback hears of the error; that of a dying context is not told.
  void Skip(Context& context) override {
    if (context.active()) Call(context, context.sticky());
  }

 private:
  void Call(Context& context, CUresult status) {
    std::lock_guard one_at_a_time(context.host_function_mutex());
    GetThread().in_host_function = true;
    callback_(stream_, status, data_);
    GetThread().in_host_function = false;
  }
  const CUstreamCallback callback_;
  const CUstream stream_;
  void* const data_;
};

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) { return CreateStream(phStream, Flags, 0); }
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return CreateStream(phStream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream hStream) {
  ContextPtr context;
  RETURN_ON_ERROR(CurrentContext(&context));
  Driver& driver = GetDriver();
  const StreamPtr stream = driver.streams.Remove(hStream);
  RETURN_IF(stream == nullptr, hStream == nullptr || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD
                                   ? CUDA_ERROR_INVALID_VALUE
                                   : CUDA_ERROR_INVALID_HANDLE);
  if (driver.active_captures != 0) {
    std::lock_guard lock(driver.graph_mutex);
    const auto capture = stream->capture;
    if (capture != nullptr && capture->origin.lock() != stream) {
      const std::vector<uint64_t>& last = stream->capture_dependencies;
      capture->last_of_destroyed.insert(capture->last_of_destroyed.end(), last.begin(), last.end());
    } else if (capture != nullptr) {
      capture->invalidated = true;
      EndCapture(*capture);
      if (!capture->to_existing_graph) DestroyGraph(capture->graph);
    }
  }
  if (const ContextPtr owner = driver.contexts.Find(stream->context_handle())) owner->ForgetStream(stream);
  return context->sticky();
}

CUresult cuStreamQuery(CUstream hStream) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_ON_ERROR(CheckStreamQuery(*context, *stream));
  const auto busy = [](const StreamPtr& one) {
    const FencePtr tail = one->tail();
    return tail != nullptr && !tail->done();
  };
  if (busy(stream)) return CUDA_ERROR_NOT_READY;
  if (stream->is_legacy()) {
    for (const StreamPtr& other : context->streams()) {
      if (other->type() == Stream::Type::kBlocking && busy(other)) return CUDA_ERROR_NOT_READY;
    }
  }
  return context->sticky();
}

CUresult cuStreamSynchronize(CUstream hStream) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_ON_ERROR(CheckStreamQuery(*context, *stream));
  if (stream->is_legacy()) return context->WaitFor(context->Submit(stream, std::make_shared<EmptyCommand>()));
  return context->WaitFor(stream->tail());
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF(priority == nullptr, CUDA_ERROR_INVALID_VALUE);
  *priority = stream->priority();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_ON_ERROR(CheckNotCapturing(*context, *stream));  // natively so
  RETURN_IF(flags == nullptr, CUDA_ERROR_INVALID_VALUE);
  *flags = stream->type() == Stream::Type::kNonBlocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_ON_ERROR(CheckNotCapturing(*context, *stream));  // natively so
  RETURN_IF(streamId == nullptr, CUDA_ERROR_INVALID_VALUE);
  *streamId = stream->id();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_ON_ERROR(CheckNotCapturing(*context, *stream));  // natively so
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_VALUE);
  *device = context->device().number();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF(pctx == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pctx = context->cuda_handle();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  RETURN_ON_ERROR(cuStreamGetCtx(hStream, pCtx));
  CUgreenCtx green = nullptr;
  RETURN_ON_ERROR(cuStreamGetGreenCtx(hStream, &green));
  if (green != nullptr) *pCtx = GetDriver().contexts.Find(*pCtx)->owner()->cuda_handle();
  if (pGreenCtx != nullptr) *pGreenCtx = green;
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF(fn == nullptr, CUDA_ERROR_INVALID_VALUE);
  return Enqueue(context, stream, std::make_shared<HostCommand>(CUDA_HOST_NODE_PARAMS{fn, userData}));
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF(callback == nullptr || flags != 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckNotCapturing(*context, *stream));
  stream->WaitForRoom();
  context->Submit(stream, std::make_shared<CallbackCommand>(callback, hStream, userData));
  return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  *value = {};
  std::lock_guard lock(stream->attribute_mutex);
  const auto found = stream->attributes.find(attr);
  if (found != stream->attributes.end()) {
    *value = found->second;
    return CUDA_SUCCESS;
  }
  switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: value->syncPolicy = CU_SYNC_POLICY_AUTO; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: value->priority = stream->priority(); return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: value->memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: value->memSyncDomainMap = {0, 1}; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  std::lock_guard lock(stream->attribute_mutex);
  stream->attributes[attr] = *value;
  return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
  ContextPtr context;
  StreamPtr to, from;
  RETURN_ON_ERROR(EnterStream(dst, &context, &to));
  RETURN_ON_ERROR(EnterStream(src, &context, &from));
  if (to == from) return CUDA_SUCCESS;
  std::scoped_lock lock(to->attribute_mutex, from->attribute_mutex);
  to->attributes = from->attributes;
  return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  return CUDA_ERROR_INVALID_VALUE;  // there is no managed memory to attach
}

CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  if (leastPriority != nullptr) *leastPriority = 0;
  if (greatestPriority != nullptr) *greatestPriority = kGreatestPriority;
  return CUDA_SUCCESS;
}

}  // extern "C"
