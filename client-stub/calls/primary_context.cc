// Primary contexts. The handle of a device's primary context never changes and is known before it is retained. Retains
// are counted here; the server hears of the first and of the last. Behaviour where the documentation is silent: driver
// 580.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/session/client.h"
#include "client-stub/session/context_flags.h"
#include "generated/client/primary_context.h"

namespace tessera {
namespace {

// The primary context of a call's device, or null and the call failed.
Context* FindPrimary(Call& call, CUdevice device) {
  if (!call.ok()) return nullptr;
  if (!call.session().devices().Valid(device)) return call.Fail(CUDA_ERROR_INVALID_DEVICE), nullptr;
  Context* context = call.session().contexts().Primary(device);
  if (context == nullptr) call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  return context;
}

}  // namespace

CUresult Custom_cuDevicePrimaryCtxRetain(Call& call, CUcontext* pctx, CUdevice dev) {
  if (call.ok() && pctx == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Context* context = FindPrimary(call, dev);
  if (context == nullptr) return call.result();
  MutexLock lock(context->primary_mutex);
  if (!context->active()) {
    cuDevicePrimaryCtxRetainRequest request;
    request.context = context->handle;
    request.device = call.DeviceNumber(dev);
    request.flags = ServerContextFlags(context->primary_flags);
    if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
    // A primary context always maps host memory, and says so.
    context->flags = context->primary_flags | CU_CTX_MAP_HOST;
    call.session().contexts().Activate(context);
  }
  ++context->retain_count;
  *pctx = context->object();
  return CUDA_SUCCESS;
}

CUresult Custom_cuDevicePrimaryCtxRelease_v2(Call& call, CUdevice dev) {
  Context* context = FindPrimary(call, dev);
  if (context == nullptr) return call.result();
  {
    MutexLock lock(context->primary_mutex);
    if (context->retain_count == 0) return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
    if (--context->retain_count > 0 || !context->active()) return CUDA_SUCCESS;
    cuDevicePrimaryCtxRelease_v2Request request;
    request.context = context->handle;
    request.device = call.DeviceNumber(dev);
    const CUresult result = call.Sync(request);
    call.session().contexts().Deactivate(context);
    if (result != CUDA_SUCCESS) return result;
  }
  call.session().contexts().Finish(context);
  return CUDA_SUCCESS;
}

CUresult Custom_cuDevicePrimaryCtxReset_v2(Call& call, CUdevice dev) {
  Context* context = FindPrimary(call, dev);
  if (context == nullptr) return call.result();
  {
    MutexLock lock(context->primary_mutex);
    context->primary_flags = 0;
    if (!context->active()) return CUDA_SUCCESS;
    cuDevicePrimaryCtxReset_v2Request request;
    request.context = context->handle;
    request.device = call.DeviceNumber(dev);
    // The worker lets the context go whatever the driver says.
    const CUresult result = call.Sync(request);
    call.session().contexts().Deactivate(context);
    if (result != CUDA_SUCCESS) return result;
  }
  call.session().contexts().Finish(context);
  return CUDA_SUCCESS;
}

CUresult Custom_cuDevicePrimaryCtxSetFlags_v2(Call& call, CUdevice dev, unsigned int flags) {
  Context* context = FindPrimary(call, dev);
  if (context == nullptr) return call.result();
  if (!ContextFlagsAreLegal(flags)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  MutexLock lock(context->primary_mutex);
  if (context->active()) {
    if (ServerContextFlags(flags) != ServerContextFlags(context->primary_flags)) {
      cuDevicePrimaryCtxSetFlags_v2Request request;
      request.dev = call.DeviceNumber(dev);
      request.flags = ServerContextFlags(flags);
      if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
    }
    context->flags = flags | CU_CTX_MAP_HOST;
  }
  context->primary_flags = flags;
  NoteSchedule(flags);
  return CUDA_SUCCESS;
}

CUresult Custom_cuDevicePrimaryCtxGetState(Call& call, CUdevice dev, unsigned int* flags, int* active) {
  if (call.ok() && (flags == nullptr || active == nullptr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Context* context = FindPrimary(call, dev);
  if (context == nullptr) return call.result();
  *flags = context->primary_flags.load(std::memory_order_relaxed);
  *active = context->active() ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace tessera
