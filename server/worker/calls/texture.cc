// Texture and surface objects: values that kernels see, so the driver's own are handed to the client. The arrays in their
// descriptions are handles and travel beside them.

#include <cuda.h>

#include "generated/driver_table.h"
#include "generated/server/texture.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/stream_copy.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

constexpr uint32_t kHasTexture = 1;  // bits of the field `present`
constexpr uint32_t kHasView = 2;

// The description with the driver's objects in it. False: it names memory or a kind of resource that the client may not. The
// driver looks at no address (driver 580), so one where it knows no memory is the kernel's business.
template <typename Request>
bool ResourceOf(CallContext& call, const Request& request, CUDA_RESOURCE_DESC* resource) {
  *resource = request.resource;
  switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY: resource->res.array.hArray = call.Use<CUarray>(request.array); return true;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      resource->res.mipmap.hMipmappedArray = call.Use<CUmipmappedArray>(request.mipmapped);
      return true;
    case CU_RESOURCE_TYPE_LINEAR:
      return call.worker().parts().memory().MayName(resource->res.linear.devPtr, resource->res.linear.sizeInBytes);
    case CU_RESOURCE_TYPE_PITCH2D: {
      Range extent;
      const auto& image = resource->res.pitch2D;
      return ExtentOf(image.devPtr, image.pitchInBytes, 1, 1, image.height, 1, &extent) &&
             call.worker().parts().memory().MayName(extent.base, extent.bytes);
    }
    default: return false;
  }
}

template <typename Reply>
void FinishResource(CallContext& call, CUresult result, CUDA_RESOURCE_DESC resource) {
  Reply reply;
  if (result == CUDA_SUCCESS && resource.resType == CU_RESOURCE_TYPE_ARRAY) {
    reply.array = call.Known(HandleKind::kArray, resource.res.array.hArray);
    resource.res.array.hArray = nullptr;
  }
  if (result == CUDA_SUCCESS && resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    reply.mipmapped = call.Known(HandleKind::kMipmappedArray, resource.res.mipmap.hMipmappedArray);
    resource.res.mipmap.hMipmappedArray = nullptr;
  }
  reply.resource = resource;
  call.Finish(result, reply);
}

}  // namespace

void Do_cuTexObjectCreate(CallContext& call, const cuTexObjectCreateRequest& request) {
  CUDA_RESOURCE_DESC resource;
  const bool allowed = ResourceOf(call, request, &resource);
  if (!call.ok()) return call.Finish(call.error());
  if (!allowed) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  cuTexObjectCreateReply reply;
  CUtexObject object = 0;
  const CUresult result =
      call.driver().cuTexObjectCreate(&object, &resource, (request.present & kHasTexture) != 0 ? &request.texture : nullptr,
                                      (request.present & kHasView) != 0 ? &request.view : nullptr);
  reply.object = object;
  call.Finish(result, reply);
}

void Do_cuSurfObjectCreate(CallContext& call, const cuSurfObjectCreateRequest& request) {
  CUDA_RESOURCE_DESC resource;
  const bool allowed = ResourceOf(call, request, &resource);
  if (!call.ok()) return call.Finish(call.error());
  if (!allowed) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  cuSurfObjectCreateReply reply;
  CUsurfObject object = 0;
  const CUresult result = call.driver().cuSurfObjectCreate(&object, &resource);
  reply.object = object;
  call.Finish(result, reply);
}

void Do_cuTexObjectGetResourceDesc(CallContext& call, const cuTexObjectGetResourceDescRequest& request) {
  CUDA_RESOURCE_DESC resource{};
  const CUresult result = call.driver().cuTexObjectGetResourceDesc(&resource, request.object);
  FinishResource<cuTexObjectGetResourceDescReply>(call, result, resource);
}

void Do_cuSurfObjectGetResourceDesc(CallContext& call, const cuSurfObjectGetResourceDescRequest& request) {
  CUDA_RESOURCE_DESC resource{};
  const CUresult result = call.driver().cuSurfObjectGetResourceDesc(&resource, request.object);
  FinishResource<cuSurfObjectGetResourceDescReply>(call, result, resource);
}

}  // namespace tessera
