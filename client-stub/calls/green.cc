// Green contexts: a share of a GPU's multiprocessors. Each stands for one context of the device (cuCtxFromGreenCtx) that
// runs work on that share and in everything else is the primary context, which it keeps retained.

#include <cuda.h>

#include <algorithm>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/session/client.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client/green.h"
#include "generated/client/primary_context.h"
#include "protocol/runtime/client_support.h"

namespace tessera {
namespace {

// The context of a green context that exists; null, with the call failed, for any other handle.
Context* FindGreen(Call& call, CUgreenCtx handle) {
  if (!call.ok()) return nullptr;
  Context* context = call.session().contexts().FindGreen(HandleId(reinterpret_cast<uint64_t>(handle)));
  if (context == nullptr) {
    call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  } else if (!context->active()) {
    call.Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }
  return call.ok() ? context : nullptr;
}

// The server's green context is gone: so is its context here, which stays current where it is and cannot be used.
void End(Call& call, Context* context) {
  call.session().contexts().Deactivate(context);
  call.Release(context->handle);
  call.Release(context->green);
  call.session().contexts().Finish(context);
}

}  // namespace

CUresult Custom_cuGreenCtxCreate(Call& call, CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (phCtx == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGreenCtxCreateRequest request;
  request.desc = call.Use(HandleKind::kResourceDescriptor, desc);
  if (!call.ok()) return call.result();
  if (!call.session().devices().Valid(dev)) return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  CUcontext primary = nullptr;
  if (const CUresult result = Enter_cuDevicePrimaryCtxRetain(false, &primary, dev); result != CUDA_SUCCESS) {
    return call.Fail(result);
  }
  request.green = call.Mint(HandleKind::kGreenContext);
  request.context = call.Mint(HandleKind::kContext);
  request.primary = HandleId(reinterpret_cast<uint64_t>(primary));
  request.device = call.DeviceNumber(dev);
  request.flags = flags;
  if (!call.ok() || call.Sync(request) != CUDA_SUCCESS) {
    Enter_cuDevicePrimaryCtxRelease_v2(false, dev);
    return call.result();
  }
  call.session().contexts().AddGreen(request.context, request.green, *call.session().contexts().Primary(dev));
  *phCtx = ToObject<CUgreenCtx>(request.green);
  return CUDA_SUCCESS;
}

CUresult Custom_cuGreenCtxDestroy(Call& call, CUgreenCtx hCtx) {
  Context* context = FindGreen(call, hCtx);
  if (context == nullptr) return call.result();
  cuGreenCtxDestroyRequest request;
  request.green = context->green;
  request.context = context->handle;
  if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
  End(call, context);
  return call.Fail(Enter_cuDevicePrimaryCtxRelease_v2(false, context->device));
}

CUresult Custom_cuCtxFromGreenCtx(Call& call, CUcontext* pContext, CUgreenCtx hCtx) {
  if (call.ok() && pContext == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* context = FindGreen(call, hCtx);
  if (context == nullptr) return call.result();
  *pContext = context->object();
  return CUDA_SUCCESS;
}

// A null green context means the calling thread's current one.
CUresult Custom_cuGreenCtxGetId(Call& call, CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
  if (call.ok() && greenCtxId == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* context = greenCtx != nullptr ? FindGreen(call, greenCtx) : call.thread().current();
  if (!call.ok()) return call.result();
  if (context == nullptr || context->parent == nullptr) return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
  *greenCtxId = context->number;
  return CUDA_SUCCESS;
}

CUresult Custom_cuDevSmResourceSplitByCount(Call& call, CUdevResource* result, unsigned int* nbGroups, const CUdevResource* input,
                                            CUdevResource* remaining, unsigned int useFlags, unsigned int minCount) {
  if (!call.ok()) return call.result();
  if (nbGroups == nullptr || input == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuDevSmResourceSplitByCountRequest request;
  request.input = *input;
  request.groups = *nbGroups;
  request.wants_result = result != nullptr;
  request.wants_remaining = remaining != nullptr;
  request.flags = useFlags;
  request.min_count = minCount;
  cuDevSmResourceSplitByCountReply reply;
  if (const CUresult split = call.Sync(request, &reply); split != CUDA_SUCCESS) return split;
  if (result != nullptr) {
    if (reply.result.size() > *nbGroups) return call.MalformedReply();
    std::copy(reply.result.begin(), reply.result.end(), result);
  }
  if (remaining != nullptr) *remaining = reply.remaining;
  *nbGroups = reply.groups;
  return CUDA_SUCCESS;
}

CUresult Custom_cuGreenCtxStreamCreate(Call& call, CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags, int priority) {
  if (call.ok() && phStream == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* context = FindGreen(call, greenCtx);
  if (context == nullptr) return call.result();
  if (flags != CU_STREAM_NON_BLOCKING) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const DeviceSnapshot::Device& device = call.session().devices()[context->device];
  cuGreenCtxStreamCreateRequest request;
  request.greenCtx = context->green;
  request.flags = flags;
  request.priority = std::clamp(priority, device.greatest_stream_priority, device.least_stream_priority);
  request.phStream = call.Mint(HandleKind::kStream);
  if (!call.ok()) return call.result();
  if (!Streams().Add(request.phStream, *context, flags, request.priority)) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) {
    Streams().Erase(request.phStream);
    return result;
  }
  *phStream = ToObject<CUstream>(request.phStream);
  return CUDA_SUCCESS;
}

// Null for a stream that belongs to an ordinary context.
CUresult Custom_cuStreamGetGreenCtx(Call& call, CUstream hStream, CUgreenCtx* phCtx) {
  if (!call.ok()) return call.result();
  if (phCtx == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  UsedStream stream;
  if (!UseStreamInfo(call, hStream, &stream)) return call.result();
  const Context* context = call.session().contexts().Find(ToObject<CUcontext>(stream.info.context));
  *phCtx = context == nullptr ? nullptr : ToObject<CUgreenCtx>(context->green);
  return CUDA_SUCCESS;
}

}  // namespace tessera
