// Contexts: the stack of each thread, creation and destruction, and what is kept per context. Behaviour where the
// documentation is silent: driver 580.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/client.h"
#include "client-stub/session/context_flags.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/idle_streams.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client/context.h"

namespace tessera {
namespace {

// The context that a parameter means; null stands for the calling thread's own. Null and 201 when there is none.
Context* FindContext(Call& call, CUcontext handle) {
  if (!call.ok()) return nullptr;
  Context* current = call.thread().current();
  Context* context =
      handle == nullptr || (current != nullptr && current->object() == handle) ? current : call.session().contexts().Find(handle);
  if (context == nullptr) call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  return context;
}

// Captures that forbid waiting for all work of a context; a primary context's includes that of its green ones.
CUresult CheckCaptures(Call& call, const Context& context) {
  if (Captures().idle()) return CUDA_SUCCESS;
  CUresult legal = Captures().CheckContext(context.handle.value());
  for (const Context* green : call.session().contexts().GreensOf(context)) {
    const CUresult other = Captures().CheckContext(green->handle.value());
    if (legal == CUDA_SUCCESS) legal = other;
  }
  return legal;
}

CUresult Destroy(Call& call, Context* context) {
  cuCtxDestroy_v2Request request;
  request.context = context->handle;
  if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
  if (call.thread().current() == context) call.thread().context_stack.pop_back();
  call.session().contexts().Deactivate(context);
  call.Release(context->handle);
  call.session().contexts().Finish(context);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuCtxCreate_v2(Call& call, CUcontext* pctx, unsigned int flags, CUdevice dev) {
  if (!call.ok()) return call.result();
  if (pctx == nullptr || !ContextFlagsAreLegal(flags)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (!call.session().devices().Valid(dev)) return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  cuCtxCreate_v2Request request;
  request.context = call.Mint(HandleKind::kContext);
  if (!call.ok()) return call.result();
  request.flags = ServerContextFlags(flags);
  request.device = call.DeviceNumber(dev);
  if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
  NoteSchedule(flags);
  Context* context = call.session().contexts().Add(request.context, dev, flags, kContextApiVersion);
  call.thread().context_stack.push_back(context);
  *pctx = context->object();
  return CUDA_SUCCESS;
}

// With parameters these ask for a share of the multiprocessors (MPS) or a graphics context: neither is forwarded.
CUresult Custom_cuCtxCreate_v3(Call& call, CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                               CUdevice dev) {
  if (!call.ok()) return call.result();
  if (numParams < 0 || (numParams > 0 && paramsArray == nullptr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (numParams > 0) return call.Fail(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  return call.Fail(Enter_cuCtxCreate_v2(false, pctx, flags, dev));
}

CUresult Custom_cuCtxCreate_v4(Call& call, CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                               CUdevice dev) {
  if (!call.ok()) return call.result();
  if (ctxCreateParams != nullptr && ctxCreateParams->cigParams != nullptr) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  if (ctxCreateParams != nullptr && ctxCreateParams->numExecAffinityParams > 0) {
    return call.Fail(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  }
  return call.Fail(Enter_cuCtxCreate_v2(false, pctx, flags, dev));
}

CUresult Custom_cuCtxDestroy_v2(Call& call, CUcontext ctx) {
  if (!call.ok()) return call.result();
  if (ctx == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Context* context = FindContext(call, ctx);
  if (context == nullptr) return call.result();
  // A green context's ends with the green context.
  if (context->primary || context->parent != nullptr) return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  if (!context->active()) return call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return Destroy(call, context);
}

CUresult Custom_cuCtxPushCurrent_v2(Call& call, CUcontext ctx) {
  if (!call.ok()) return call.result();
  if (ctx == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Context* context = FindContext(call, ctx);
  if (context == nullptr) return call.result();
  call.thread().context_stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxPopCurrent_v2(Call& call, CUcontext* pctx) {
  if (!call.ok()) return call.result();
  ThreadState& thread = call.thread();
  if (thread.context_stack.empty()) return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  if (pctx != nullptr) *pctx = thread.current()->object();
  thread.context_stack.pop_back();
  return CUDA_SUCCESS;
}

// Replaces the top of the stack. Contexts that were destroyed, and primary ones that nobody retains, are accepted:
// using them fails.
CUresult Custom_cuCtxSetCurrent(Call& call, CUcontext ctx) {
  if (!call.ok()) return call.result();
  ThreadState& thread = call.thread();
  if (ctx == nullptr) {
    if (!thread.context_stack.empty()) thread.context_stack.pop_back();
    return CUDA_SUCCESS;
  }
  Context* context = FindContext(call, ctx);
  if (context == nullptr) return call.result();
  if (thread.context_stack.empty()) {
    thread.context_stack.push_back(context);
  } else {
    thread.context_stack.back() = context;
  }
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxGetCurrent(Call& call, CUcontext* pctx) {
  if (!call.ok()) return call.result();
  if (pctx == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* current = call.thread().current();
  *pctx = current == nullptr ? nullptr : current->object();
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxGetDevice(Call& call, CUdevice* device) { return Custom_cuCtxGetDevice_v2(call, device, nullptr); }

CUresult Custom_cuCtxGetDevice_v2(Call& call, CUdevice* device, CUcontext ctx) {
  if (!call.ok()) return call.result();
  if (device == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* context = FindContext(call, ctx);
  if (context == nullptr) return call.result();
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxGetFlags(Call& call, unsigned int* flags) {
  if (!call.ok()) return call.result();
  if (flags == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* context = FindContext(call, nullptr);
  if (context == nullptr) return call.result();
  *flags = context->flags.load(std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxSetFlags(Call& call, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (!ContextFlagsAreLegal(flags)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Context* context = call.thread().current();
  if (context->primary) flags |= CU_CTX_MAP_HOST;
  if (ServerContextFlags(flags) != ServerContextFlags(context->flags)) {
    cuCtxSetFlagsRequest request;
    request.flags = ServerContextFlags(flags);
    if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
  }
  context->flags = flags;
  NoteSchedule(flags);
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxGetId(Call& call, CUcontext ctx, unsigned long long* ctxId) {
  if (!call.ok()) return call.result();
  if (ctxId == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* context = FindContext(call, ctx);
  if (context == nullptr) return call.result();
  if (!context->active()) return call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  *ctxId = context->number;
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxGetApiVersion(Call& call, CUcontext ctx, unsigned int* version) {
  if (!call.ok()) return call.result();
  if (version == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* context = FindContext(call, ctx);
  if (context == nullptr) return call.result();
  if (!context->active()) return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxSynchronize(Call& call) {
  if (!call.ok()) return call.result();
  const CUresult legal = CheckCaptures(call, *call.thread().current());
  if (legal != CUDA_SUCCESS) return call.Fail(legal);
  const CUresult result = call.SyncWork(cuCtxSynchronizeRequest());
  if (result == CUDA_SUCCESS) {
    NoteSynchronized(call, *call.thread().current());
    call.session().memory().pools().AfterIdle(call, 0);
  }
  return result;
}

CUresult Custom_cuCtxSynchronize_v2(Call& call, CUcontext ctx) {
  const Context* context = FindContext(call, ctx);
  if (context == nullptr) return call.result();
  if (!context->active()) return call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  if (context == call.thread().current()) return call.Fail(Enter_cuCtxSynchronize(false));
  const CUresult legal = CheckCaptures(call, *context);
  if (legal != CUDA_SUCCESS) return call.Fail(legal);
  cuCtxSynchronize_v2Request request;
  request.ctx = context->handle;
  return call.SyncWork(request);
}

CUresult Custom_cuCtxSetLimit(Call& call, CUlimit limit, size_t value) {
  if (!call.ok()) return call.result();
  Context* context = call.thread().current();
  cuCtxSetLimitRequest request;
  request.limit = limit;
  request.value = value;
  const CUresult result = call.Sync(request);
  // The driver rounds, and one limit may move another: ask again.
  MutexLock lock(context->limits_mutex);
  context->limits.clear();
  return result;
}

CUresult Custom_cuCtxGetLimit(Call& call, size_t* pvalue, CUlimit limit) {
  if (!call.ok()) return call.result();
  if (pvalue == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Context* context = call.thread().current();
  {
    MutexLock lock(context->limits_mutex);
    const auto known = context->limits.find(limit);
    if (known != context->limits.end()) {
      *pvalue = known->second;
      return CUDA_SUCCESS;
    }
  }
  cuCtxGetLimitRequest request;
  request.limit = limit;
  cuCtxGetLimitReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  *pvalue = reply.pvalue;
  if (limit == CU_LIMIT_STACK_SIZE) return CUDA_SUCCESS;  // launches change it
  MutexLock lock(context->limits_mutex);
  context->limits[limit] = reply.pvalue;
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxGetStreamPriorityRange(Call& call, int* leastPriority, int* greatestPriority) {
  if (!call.ok()) return call.result();
  const DeviceSnapshot::Device& device = call.session().devices()[call.thread().current()->device];
  if (leastPriority != nullptr) *leastPriority = device.least_stream_priority;
  if (greatestPriority != nullptr) *greatestPriority = device.greatest_stream_priority;
  return CUDA_SUCCESS;
}

// Obsolete usage counts: a context that is not primary ends when the last one is given back.
CUresult Custom_cuCtxAttach(Call& call, CUcontext* pctx, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (pctx == nullptr || flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Context* context = call.thread().current();
  if (context == nullptr) return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  context->usage_count.fetch_add(1, std::memory_order_relaxed);
  *pctx = context->object();
  return CUDA_SUCCESS;
}

CUresult Custom_cuCtxDetach(Call& call, CUcontext ctx) {
  if (!call.ok()) return call.result();
  Context* context = ctx == nullptr ? nullptr : FindContext(call, ctx);
  if (context == nullptr || context != call.thread().current() || !context->active()) {
    return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  }
  if (context->primary || context->usage_count.fetch_sub(1, std::memory_order_relaxed) > 1) return CUDA_SUCCESS;
  return call.Fail(Enter_cuCtxDestroy_v2(false, ctx));
}

}  // namespace tessera
