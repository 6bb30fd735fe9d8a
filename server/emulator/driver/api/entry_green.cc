// Green contexts, and events of whole contexts. Multiprocessors are counted, not told apart: a green context limits what
// counts them (cooperative launches), its kernels run on the host's processors like all others.
// Source: CUDA driver API, "Green Contexts".
#include <cstring>
#include <span>

#include "server/emulator/driver/api/destroy_context.h"
#include "server/emulator/driver/core/shared_event.h"
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/device/device_attributes.h"
#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/memory/device_memory.h"

namespace tessera::emulator {

class GreenContext {
 public:
  GreenContext(ContextPtr context, const CUdevResource& resource) : context_(std::move(context)), resource_(resource) {}
  const ContextPtr& context() const { return context_; }
  const CUdevResource& resource() const { return resource_; }

 private:
  const ContextPtr context_;
  const CUdevResource resource_;
};

class ResourceDescriptor {
 public:
  explicit ResourceDescriptor(const CUdevResource& resource) : resource_(resource) {}
  const CUdevResource& resource() const { return resource_; }

 private:
  const CUdevResource resource_;
};

namespace {

// Smallest part and alignment for compute capability 9.0, and where multiprocessors may be taken one cluster apart.
constexpr unsigned kPartMin = 8;
constexpr unsigned kLoosePartMin = 2;

// What stands in the part of a CUdevResource that belongs to the driver.
struct Origin {
  static constexpr uint64_t kMark = 0x7465737365726153;
  uint64_t mark = kMark;
  uint64_t split = 0;  // number of the split it came from; 0: not from a split
  int32_t device = 0;
  uint32_t count = 0;  // again: edited resources are refused
};
static_assert(sizeof(Origin) <= sizeof(CUdevResource::_internal_padding));

CUdevResource MakeResource(int device, unsigned count, unsigned minimum, uint64_t split) {
  CUdevResource resource{};
  if (count == 0) return resource;  // of type CU_DEV_RESOURCE_TYPE_INVALID
  Origin origin;
  origin.split = split;
  origin.device = device;
  origin.count = count;
  memcpy(resource._internal_padding, &origin, sizeof origin);
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm.smCount = count;
  resource.sm.minSmPartitionSize = minimum;
  resource.sm.smCoscheduledAlignment = minimum;
  return resource;
}

CUresult OriginOf(const CUdevResource& resource, Origin* origin) {
  RETURN_IF(resource.type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  memcpy(origin, resource._internal_padding, sizeof *origin);
  RETURN_IF(origin->mark != Origin::kMark || GetDriver().device(origin->device) == nullptr || resource.sm.smCount == 0 ||
                resource.sm.smCount != origin->count,
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  return CUDA_SUCCESS;
}

CUresult EnterGreen(CUgreenCtx handle, std::shared_ptr<GreenContext>* green) {
  RETURN_ON_ERROR(CheckEntry());
  *green = GetDriver().green_contexts.Find(handle);
  RETURN_IF(*green == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return (*green)->context()->active() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult EnterNamedContext(CUcontext handle, ContextPtr* context) {
  RETURN_ON_ERROR(CheckEntry());
  *context = GetDriver().contexts.Find(handle);
  RETURN_IF(*context == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return (*context)->active() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult TypedResource(const CUdevResource& found, CUdevResource* resource, CUdevResourceType type) {
  RETURN_IF(resource == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  *resource = found;
  return CUDA_SUCCESS;
}

// 900, and the captures are invalidated, when a stream of the context captures.
CUresult CheckNoCaptures(const Context& context) {
  if (GetDriver().active_captures == 0) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  std::lock_guard lock(GetDriver().graph_mutex);
  for (const StreamPtr& stream : context.streams()) {
    if (stream->capture == nullptr) continue;
    stream->capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult Record(const ContextPtr& context, CUevent handle) {
  const EventPtr event = GetDriver().events.Find(handle);
  RETURN_IF(event == nullptr || event->context_handle() != context->owner_handle(), CUDA_ERROR_INVALID_HANDLE);
  RETURN_ON_ERROR(CheckNoCaptures(*context));
  CommandPtr record = std::make_shared<EmptyCommand>();
  if (event->shared() != nullptr) record = std::make_shared<SharedRecordCommand>(event->shared(), event->shared()->BeginRecord());
  event->SetRecord(context->SubmitAfterAll(std::move(record)));
  std::lock_guard lock(GetDriver().graph_mutex);
  event->capture = nullptr;
  return CUDA_SUCCESS;
}

CUresult Wait(const ContextPtr& context, CUevent handle) {
  const EventPtr event = GetDriver().events.Find(handle);
  RETURN_IF(event == nullptr, CUDA_ERROR_INVALID_HANDLE);
  RETURN_ON_ERROR(CheckNoCaptures(*context));
  {
    std::lock_guard lock(GetDriver().graph_mutex);
    if (event->capture != nullptr) {
      event->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  if (const auto& shared = event->shared(); shared != nullptr) {
    context->HoldBack(context->SubmitAside(std::make_shared<SharedWaitCommand>(shared, shared->newest()), {}));
  } else if (const FencePtr record = event->record(); record != nullptr && !record->done()) {
    context->HoldBack(record);
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace tessera::emulator

using namespace tessera::emulator;

extern "C" {

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(resource == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(GetDriver().device(device) == nullptr, CUDA_ERROR_INVALID_DEVICE);
  return TypedResource(MakeResource(device, kMultiprocessors, kPartMin, 0), resource, type);
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource, CUdevResourceType type) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterNamedContext(hCtx, &context));
  return TypedResource(MakeResource(context->device().number(), static_cast<unsigned>(context->multiprocessors()), kPartMin, 0),
                       resource, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource, CUdevResourceType type) {
  std::shared_ptr<GreenContext> green;
  RETURN_ON_ERROR(EnterGreen(hCtx, &green));
  return TypedResource(green->resource(), resource, type);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* nbGroups, const CUdevResource* input,
                                     CUdevResource* remaining, unsigned int useFlags, unsigned int minCount) {
  RETURN_ON_ERROR(CheckEntry());
  constexpr unsigned kFlags =
      CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING | CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
  RETURN_IF(nbGroups == nullptr || input == nullptr || (useFlags & kFlags) == kFlags, CUDA_ERROR_INVALID_VALUE);
  Origin origin;
  RETURN_ON_ERROR(OriginOf(*input, &origin));
  // Parts must go through a green context before they are split again.
  RETURN_IF(origin.split != 0, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  RETURN_IF(minCount > input->sm.smCount, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  const unsigned part_min = (useFlags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0 ? kLoosePartMin : kPartMin;
  // A part that would be larger than the whole is the whole.
  const unsigned part = std::min(input->sm.smCount, std::max(part_min, static_cast<unsigned>(RoundUp(minCount, part_min))));
  const unsigned possible = input->sm.smCount / part;
  if (result == nullptr) {
    *nbGroups = possible;
    return CUDA_SUCCESS;
  }
  RETURN_IF(*nbGroups == 0, CUDA_ERROR_INVALID_VALUE);
  const unsigned groups = std::min(*nbGroups, possible);
  const uint64_t split = GetDriver().next_split.fetch_add(1);
  for (CUdevResource& group : std::span(result, groups)) group = MakeResource(origin.device, part, 0, split);
  if (remaining != nullptr) *remaining = MakeResource(origin.device, input->sm.smCount - groups * part, 0, split);
  *nbGroups = groups;
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc, CUdevResource* resources, unsigned int nbResources) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(phDesc == nullptr || resources == nullptr || nbResources == 0, CUDA_ERROR_INVALID_VALUE);
  Origin first;
  unsigned count = 0;
  for (unsigned i = 0; i < nbResources; ++i) {
    Origin origin;
    RETURN_ON_ERROR(OriginOf(resources[i], &origin));
    if (i == 0) first = origin;
    // Several parts come from one split of one device.
    RETURN_IF(i != 0 && (origin.split == 0 || origin.split != first.split || origin.device != first.device),
              CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    count += resources[i].sm.smCount;
  }
  RETURN_IF(count > kMultiprocessors, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  auto descriptor = std::make_shared<ResourceDescriptor>(MakeResource(first.device, count, std::min(count, kPartMin), 0));
  *phDesc = reinterpret_cast<CUdevResourceDesc>(GetDriver().resource_descriptors.Add(std::move(descriptor)));
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(phCtx == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM, CUDA_ERROR_INVALID_VALUE);
  const auto descriptor = GetDriver().resource_descriptors.Find(desc);
  RETURN_IF(descriptor == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(GetDriver().device(dev) == nullptr, CUDA_ERROR_INVALID_DEVICE);
  Origin origin;
  RETURN_ON_ERROR(OriginOf(descriptor->resource(), &origin));
  RETURN_IF(origin.device != dev, CUDA_ERROR_INVALID_DEVICE);
  CUcontext primary = nullptr;
  RETURN_ON_ERROR(cuDevicePrimaryCtxRetain(&primary, dev));
  Driver& driver = GetDriver();
  const uint64_t handle = driver.contexts.Mint();
  auto context =
      std::make_shared<Context>(driver.contexts.Find(primary), static_cast<int>(descriptor->resource().sm.smCount), handle);
  context->Activate();
  driver.contexts.Put(handle, context);
  *phCtx = reinterpret_cast<CUgreenCtx>(
      driver.green_contexts.Add(std::make_shared<GreenContext>(std::move(context), descriptor->resource())));
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
  std::shared_ptr<GreenContext> green;
  RETURN_ON_ERROR(EnterGreen(hCtx, &green));
  green->context()->Synchronize();
  DestroyContext(*green->context());
  return cuDevicePrimaryCtxRelease_v2(green->context()->device().number());
}

CUresult cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
  std::shared_ptr<GreenContext> green;
  RETURN_ON_ERROR(EnterGreen(hCtx, &green));
  RETURN_IF(pContext == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pContext = green->context()->cuda_handle();
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(greenCtxId == nullptr, CUDA_ERROR_INVALID_VALUE);
  ContextPtr context;
  if (greenCtx == nullptr) {
    RETURN_ON_ERROR(CurrentContext(&context));
  } else {
    std::shared_ptr<GreenContext> green;
    RETURN_ON_ERROR(EnterGreen(greenCtx, &green));
    context = green->context();
  }
  RETURN_IF(!context->green(), CUDA_ERROR_INVALID_CONTEXT);
  *greenCtxId = context->id();
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags, int priority) {
  std::shared_ptr<GreenContext> green;
  RETURN_ON_ERROR(EnterGreen(greenCtx, &green));
  RETURN_IF(phStream == nullptr || flags != CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
  const StreamPtr stream = green->context()->CreateStream(Stream::Type::kNonBlocking, std::clamp(priority, -5, 0));
  *phStream = reinterpret_cast<CUstream>(stream->handle);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx* phCtx) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_IF(phCtx == nullptr, CUDA_ERROR_INVALID_VALUE);
  *phCtx = nullptr;
  for (const auto& [handle, green] : GetDriver().green_contexts.Entries()) {
    if (green->context() == context) *phCtx = reinterpret_cast<CUgreenCtx>(handle);
  }
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
  std::shared_ptr<GreenContext> green;
  RETURN_ON_ERROR(EnterGreen(hCtx, &green));
  return Record(green->context(), hEvent);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
  std::shared_ptr<GreenContext> green;
  RETURN_ON_ERROR(EnterGreen(hCtx, &green));
  return Wait(green->context(), hEvent);
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterNamedContext(hCtx, &context));
  return Record(context, hEvent);
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterNamedContext(hCtx, &context));
  return Wait(context, hEvent);
}

}  // extern "C"
