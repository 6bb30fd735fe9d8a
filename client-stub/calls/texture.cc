// Texture and surface objects. The object is the server's own value, since kernels see it; arrays in a description are
// handles here and the driver's objects there.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/memory_check.h"
#include "client-stub/session/session.h"
#include "generated/client/texture.h"
#include "protocol/runtime/client_support.h"

namespace tessera {
namespace {

constexpr uint32_t kHasTexture = 1;  // bits of the field `present`
constexpr uint32_t kHasView = 2;

template <typename Request>
bool SetResource(Call& call, const CUDA_RESOURCE_DESC* resource, Request* request) {
  if (!call.ok()) return false;
  if (resource == nullptr) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return false;
  }
  request->resource = *resource;
  switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      request->array = call.Use(HandleKind::kArray, resource->res.array.hArray, false, CUDA_ERROR_INVALID_VALUE);
      request->resource.res.array.hArray = nullptr;
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      request->mipmapped =
          call.Use(HandleKind::kMipmappedArray, resource->res.mipmap.hMipmappedArray, false, CUDA_ERROR_INVALID_VALUE);
      request->resource.res.mipmap.hMipmappedArray = nullptr;
      break;
    case CU_RESOURCE_TYPE_LINEAR:
    case CU_RESOURCE_TYPE_PITCH2D: {
      CUdeviceptr* const address = resource->resType == CU_RESOURCE_TYPE_LINEAR ? &request->resource.res.linear.devPtr
                                                                                : &request->resource.res.pitch2D.devPtr;
      // The driver takes any address, and a kernel that reads there fails (driver 580). Memory that only this process has is
      // read through its mirror.
      uint64_t reached = *address;
      if (call.session().memory().Classify(reached, 1) == Place::kPrivate) ReachForDevice(call, &reached);
      *address = reached;
      break;
    }
    default: call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  return call.ok();
}

template <typename Request, typename Reply>
CUresult GetResource(Call& call, CUDA_RESOURCE_DESC* resource, uint64_t object) {
  if (!call.ok()) return call.result();
  if (resource == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  request.object = object;
  Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  *resource = reply.resource;
  if (resource->resType == CU_RESOURCE_TYPE_ARRAY) {
    call.Adopt(reply.array);
    resource->res.array.hArray = ToObject<CUarray>(reply.array);
  }
  if (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    call.Adopt(reply.mipmapped);
    resource->res.mipmap.hMipmappedArray = ToObject<CUmipmappedArray>(reply.mipmapped);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuTexObjectCreate(Call& call, CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                                  const CUDA_TEXTURE_DESC* pTexDesc, const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  cuTexObjectCreateRequest request;
  if (!SetResource(call, pResDesc, &request)) return call.result();
  if (pTexObject == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (pTexDesc != nullptr) {
    request.present |= kHasTexture;
    request.texture = *pTexDesc;
  }
  if (pResViewDesc != nullptr) {
    request.present |= kHasView;
    request.view = *pResViewDesc;
  }
  cuTexObjectCreateReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *pTexObject = reply.object;
  return result;
}

CUresult Custom_cuSurfObjectCreate(Call& call, CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
  cuSurfObjectCreateRequest request;
  if (!SetResource(call, pResDesc, &request)) return call.result();
  if (pSurfObject == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuSurfObjectCreateReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *pSurfObject = reply.object;
  return result;
}

CUresult Custom_cuTexObjectGetResourceDesc(Call& call, CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
  return GetResource<cuTexObjectGetResourceDescRequest, cuTexObjectGetResourceDescReply>(call, pResDesc, texObject);
}

CUresult Custom_cuSurfObjectGetResourceDesc(Call& call, CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
  return GetResource<cuSurfObjectGetResourceDescRequest, cuSurfObjectGetResourceDescReply>(call, pResDesc, surfObject);
}

}  // namespace tessera
