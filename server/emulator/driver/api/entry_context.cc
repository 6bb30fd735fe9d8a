// Primary contexts, contexts, their limits and flags.
#include "server/emulator/driver/api/destroy_context.h"
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/device/device_attributes.h"
#include "server/emulator/driver/graphs/capture.h"

using namespace tessera::emulator;

namespace {

constexpr unsigned kContextFlags =
    CU_CTX_FLAGS_MASK & ~static_cast<unsigned>(CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE);

CUresult FindDevice(CUdevice number, Device** device) {
  RETURN_ON_ERROR(CheckEntry());
  *device = GetDriver().device(number);
  return *device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

bool ValidFlags(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~kContextFlags) == 0 && (schedule == 0 || schedule == CU_CTX_SCHED_SPIN || schedule == CU_CTX_SCHED_YIELD ||
                                           schedule == CU_CTX_SCHED_BLOCKING_SYNC);
}

// Ends the device's primary context and leaves a fresh, inactive one behind its handle. With primary_mutex held.
void ResetPrimary(Device& device) {
  Driver& driver = GetDriver();
  const ContextPtr context = driver.contexts.Find(device.primary_handle);
  if (!context->active()) return;
  DestroyContext(*context);
  driver.contexts.Put(device.primary_handle,
                      std::make_shared<Context>(driver, &device, device.primary_flags, true, device.primary_handle));
}

CUresult FindContext(CUcontext handle, ContextPtr* context) {
  RETURN_ON_ERROR(CheckEntry());
  if (handle == nullptr) return CurrentContext(context);
  *context = GetDriver().contexts.Find(handle);
  RETURN_IF(*context == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return (*context)->active() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult Synchronize(const ContextPtr& context) {
  RETURN_ON_ERROR(context->sticky());
  RETURN_ON_ERROR(CheckUnsafeCall());
  if (GetDriver().active_captures != 0) {
    std::lock_guard lock(GetDriver().graph_mutex);
    for (const StreamPtr& stream : context->streams()) {
      if (stream->capture == nullptr) continue;
      stream->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return context->Synchronize();
}

}  // namespace

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(FindDevice(dev, &device));
  RETURN_IF(pctx == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(device->primary_mutex);
  const ContextPtr context = GetDriver().contexts.Find(device->primary_handle);
  if (!context->active()) {
    {
      std::lock_guard settings(context->settings_mutex);
      context->flags = device->primary_flags;
    }
    RETURN_IF(!context->Activate(), CUDA_ERROR_OUT_OF_MEMORY);
  }
  ++device->primary_count;
  *pctx = context->cuda_handle();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(FindDevice(dev, &device));
  std::lock_guard lock(device->primary_mutex);
  RETURN_IF(device->primary_count == 0, CUDA_ERROR_INVALID_CONTEXT);
  if (--device->primary_count == 0) ResetPrimary(*device);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { return cuDevicePrimaryCtxRelease_v2(dev); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(FindDevice(dev, &device));
  std::lock_guard lock(device->primary_mutex);
  ResetPrimary(*device);
  device->primary_count = 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) { return cuDevicePrimaryCtxReset_v2(dev); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  Device* device;
  RETURN_ON_ERROR(FindDevice(dev, &device));
  RETURN_IF(!ValidFlags(flags), CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(device->primary_mutex);
  device->primary_flags = flags;
  const ContextPtr context = GetDriver().contexts.Find(device->primary_handle);
  std::lock_guard settings(context->settings_mutex);
  context->flags = flags;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) { return cuDevicePrimaryCtxSetFlags_v2(dev, flags); }

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  Device* device;
  RETURN_ON_ERROR(FindDevice(dev, &device));
  RETURN_IF(flags == nullptr || active == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(device->primary_mutex);
  *flags = device->primary_flags;
  *active = GetDriver().contexts.Find(device->primary_handle)->active();
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(FindDevice(dev, &device));
  RETURN_IF(pctx == nullptr || !ValidFlags(flags), CUDA_ERROR_INVALID_VALUE);
  Driver& driver = GetDriver();
  const uint64_t handle = driver.contexts.Mint();
  auto context = std::make_shared<Context>(driver, device, flags, false, handle);
  RETURN_IF(!context->Activate(), CUDA_ERROR_OUT_OF_MEMORY);
  driver.contexts.Put(handle, context);
  GetThread().contexts.push_back(handle);
  *pctx = context->cuda_handle();
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags, CUdevice dev) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(numParams != 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev) {
  RETURN_ON_ERROR(CheckEntry());
  if (ctxCreateParams != nullptr) {
    RETURN_IF(ctxCreateParams->numExecAffinityParams != 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    RETURN_IF(ctxCreateParams->cigParams != nullptr, CUDA_ERROR_NOT_SUPPORTED);
  }
  return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  RETURN_ON_ERROR(CheckEntry());
  Driver& driver = GetDriver();
  const ContextPtr context = driver.contexts.Find(ctx);
  RETURN_IF(context == nullptr || context->primary() || context->green(), CUDA_ERROR_INVALID_CONTEXT);
  RETURN_IF(!context->active(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  context->Synchronize();  // natively destruction waits for the work
  DestroyContext(*context);
  // On other threads it stays current, as a destroyed context; its handle stays known for that.
  std::vector<uint64_t>& stack = GetThread().contexts;
  if (!stack.empty() && stack.back() == context->handle()) stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  RETURN_ON_ERROR(CheckEntry());
  const ContextPtr context = GetDriver().contexts.Find(ctx);
  RETURN_IF(context == nullptr || (!context->active() && !context->primary()), CUDA_ERROR_INVALID_CONTEXT);
  GetThread().contexts.push_back(context->handle());
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
  RETURN_ON_ERROR(CheckEntry());
  std::vector<uint64_t>& stack = GetThread().contexts;
  RETURN_IF(stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
  if (pctx != nullptr) *pctx = reinterpret_cast<CUcontext>(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  RETURN_ON_ERROR(CheckEntry());
  std::vector<uint64_t>& stack = GetThread().contexts;
  if (ctx == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  const ContextPtr context = GetDriver().contexts.Find(ctx);
  RETURN_IF(context == nullptr || (!context->active() && !context->primary()), CUDA_ERROR_INVALID_CONTEXT);
  if (!stack.empty()) stack.pop_back();
  stack.push_back(context->handle());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(pctx == nullptr, CUDA_ERROR_INVALID_VALUE);
  const std::vector<uint64_t>& stack = GetThread().contexts;
  *pctx = stack.empty() ? nullptr : reinterpret_cast<CUcontext>(stack.back());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(GetThread().contexts.empty(), CUDA_ERROR_INVALID_CONTEXT);
  *device = GetDriver().contexts.Find(GetThread().contexts.back())->device().number();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  if (ctx == nullptr) return cuCtxGetDevice(device);
  RETURN_ON_ERROR(CheckEntry());
  const ContextPtr context = GetDriver().contexts.Find(ctx);
  RETURN_IF(context == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_VALUE);
  *device = context->device().number();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  ContextPtr context;
  RETURN_ON_ERROR(FindContext(ctx, &context));
  RETURN_IF(ctxId == nullptr, CUDA_ERROR_INVALID_VALUE);
  *ctxId = context->id();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  ContextPtr context;
  RETURN_ON_ERROR(FindContext(ctx, &context));
  RETURN_IF(version == nullptr, CUDA_ERROR_INVALID_VALUE);
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return Synchronize(context);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
  ContextPtr context;
  RETURN_ON_ERROR(FindContext(ctx, &context));
  return Synchronize(context);
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(flags == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(context->settings_mutex);
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(!ValidFlags(flags), CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(context->settings_mutex);
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(pvalue == nullptr || limit < 0 || limit >= CU_LIMIT_MAX, CUDA_ERROR_INVALID_VALUE);
  if (limit == CU_LIMIT_STACK_SIZE) {
    *pvalue = context->local_memory().limit();
    return CUDA_SUCCESS;
  }
  std::lock_guard lock(context->settings_mutex);
  const auto found = context->limits.find(limit);
  RETURN_IF(found == context->limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
  *pvalue = found->second;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(limit < 0 || limit >= CU_LIMIT_MAX, CUDA_ERROR_INVALID_VALUE);
  if (limit == CU_LIMIT_STACK_SIZE) return context->local_memory().Set(value);
  std::lock_guard lock(context->settings_mutex);
  const auto found = context->limits.find(limit);
  RETURN_IF(found == context->limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
  if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > 128) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE) {
    int most = 0;
    DeviceAttribute(context->device(), CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, &most);
    RETURN_IF(value > static_cast<size_t>(most), CUDA_ERROR_INVALID_VALUE);
  }
  if (limit == CU_LIMIT_CIG_ENABLED) return CUDA_ERROR_UNSUPPORTED_LIMIT;  // can only be asked for (cuda.h)
  found->second = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(pconfig == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(context->settings_mutex);
  *pconfig = context->cache_config;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(context->settings_mutex);
  context->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(pConfig == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(config < 0 || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;  // the bank size is fixed since compute capability 5.0
}

CUresult cuCtxResetPersistingL2Cache(void) {
  ContextPtr context;
  return EnterContext(&context);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(pExecAffinity == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(type != CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  pExecAffinity->type = type;
  pExecAffinity->param.smCount.val = context->multiprocessors();
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(Flags != 0, CUDA_ERROR_INVALID_VALUE);
  const ContextPtr peer = GetDriver().contexts.Find(peerContext);
  RETURN_IF(peer == nullptr || !peer->active(), CUDA_ERROR_INVALID_CONTEXT);
  RETURN_IF(&peer->device() == &context->device(), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  std::lock_guard lock(context->settings_mutex);
  return context->peers.insert(peer->handle()).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  const ContextPtr peer = GetDriver().contexts.Find(peerContext);
  RETURN_IF(peer == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  {
    std::lock_guard lock(context->settings_mutex);
    RETURN_IF(context->peers.erase(peer->handle()) == 0, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  }
  GetDriver().MemoryChanged();
  return CUDA_SUCCESS;
}

}  // extern "C"
