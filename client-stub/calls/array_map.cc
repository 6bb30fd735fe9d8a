// Physical memory behind parts of sparse arrays: arrays and allocations are handles here and the driver's objects there.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/session/session.h"
#include "generated/client/texture.h"

namespace tessera {

CUresult Custom_cuMemMapArrayAsync(Call& call, CUarrayMapInfo* mapInfoList, unsigned int count, CUstream hStream) {
  if (!call.ok()) return call.result();
  if (mapInfoList == nullptr || count == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuMemMapArrayAsyncRequest request;
  request.stream = call.UseStream(hStream);
  CUarrayMapInfo* maps = request.maps.Allocate(count);
  uint64_t* resources = request.resources.Allocate(count);
  uint64_t* allocations = request.allocations.Allocate(count);
  for (unsigned i = 0; i < count && call.ok(); ++i) {
    maps[i] = mapInfoList[i];
    switch (maps[i].resourceType) {
      case CU_RESOURCE_TYPE_ARRAY:
        resources[i] = call.Use(HandleKind::kArray, maps[i].resource.array).value();
        maps[i].resource.array = nullptr;
        break;
      case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        resources[i] = call.Use(HandleKind::kMipmappedArray, maps[i].resource.mipmap).value();
        maps[i].resource.mipmap = nullptr;
        break;
      default: return call.Fail(CUDA_ERROR_INVALID_VALUE);
    }
    const bool maps_memory = maps[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP;
    allocations[i] = call.Use(HandleKind::kMemoryAllocation, uint64_t{maps[i].memHandle.memHandle}, !maps_memory).value();
    maps[i].memHandle.memHandle = 0;
  }
  if (!call.ok()) return call.result();
  return call.Sync(request);
}

}  // namespace tessera
