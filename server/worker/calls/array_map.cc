// Physical memory behind parts of sparse arrays.

#include <cuda.h>

#include <vector>

#include "generated/driver_table.h"
#include "generated/server/texture.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_cuMemMapArrayAsync(CallContext& call, const cuMemMapArrayAsyncRequest& request) {
  if (call.driver().cuMemMapArrayAsync == nullptr) return call.Finish(MissingEntry("cuMemMapArrayAsync"));
  if (request.resources.size() != request.maps.size() || request.allocations.size() != request.maps.size()) {
    return call.Malformed();
  }
  std::vector<CUarrayMapInfo> maps(request.maps.begin(), request.maps.end());
  for (size_t i = 0; i < maps.size(); ++i) {
    const HandleId resource(request.resources[i]);
    if (maps[i].resourceType == CU_RESOURCE_TYPE_ARRAY) {
      maps[i].resource.array = call.Use<CUarray>(resource);
    } else {
      maps[i].resource.mipmap = call.Use<CUmipmappedArray>(resource);
    }
    maps[i].memHandle.memHandle = call.Use<CUmemGenericAllocationHandle>(HandleId(request.allocations[i]));
  }
  CUstream stream = call.UseStream(request.stream);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuMemMapArrayAsync(maps.data(), static_cast<unsigned>(maps.size()), stream);
  PhysicalMemory& physical = call.worker().parts().memory().charges().physical();
  for (size_t i = 0; i < maps.size(); ++i) {
    if (result == CUDA_SUCCESS && maps[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP) {
      physical.MappedInArray(HandleId(request.allocations[i]));
    }
  }
  call.Finish(result);
}

}  // namespace tessera
