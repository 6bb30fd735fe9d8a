// Arrays and mipmapped arrays: memory of the device in a form that the driver chooses.

#include <cuda.h>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/array_bytes.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Ends the call with what `create` makes, an array like `array` (with `levels`, or 0) under the handle `id`.
template <typename Object, typename Create>
void FinishArray(CallContext& call, HandleId id, const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned levels, const Create& create) {
  Object object{};
  const auto make = [&] { return create(&object); };
  Charges& charges = call.worker().parts().memory().charges();
  const CUdevice device = CurrentDevice(call);
  const bool limited = charges.ledger().limited(device);
  const uint64_t bytes = limited ? ArrayBytes(call.driver(), device, array, levels) : 0;
  const CUresult result =
      WithRoom(call, bytes, [&] { return Charged(charges.ledger(), device, MemoryKind::kArrays, bytes, make); });
  if (result == CUDA_SUCCESS) {
    if (limited) charges.objects().Keep(id.value(), HeldMemory(charges.ledger(), device, MemoryKind::kArrays, bytes));
    call.New(id, object);
  }
  call.Finish(result);
}

}  // namespace

void Do_cuArrayCreate_v2(CallContext& call, const cuArrayCreate_v2Request& request) {
  if (call.driver().cuArrayCreate_v2 == nullptr) return call.Finish(MissingEntry("cuArrayCreate_v2"));
  const CUDA_ARRAY_DESCRIPTOR& flat = request.pAllocateArray;
  const CUDA_ARRAY3D_DESCRIPTOR array{flat.Width, flat.Height, 0, flat.Format, flat.NumChannels, 0};
  FinishArray<CUarray>(call, request.pHandle, array, 0,
                       [&](CUarray* made) { return call.driver().cuArrayCreate_v2(made, &flat); });
}

void Do_cuArray3DCreate_v2(CallContext& call, const cuArray3DCreate_v2Request& request) {
  if (call.driver().cuArray3DCreate_v2 == nullptr) return call.Finish(MissingEntry("cuArray3DCreate_v2"));
  FinishArray<CUarray>(call, request.pHandle, request.pAllocateArray, 0,
                       [&](CUarray* made) { return call.driver().cuArray3DCreate_v2(made, &request.pAllocateArray); });
}

void Do_cuMipmappedArrayCreate(CallContext& call, const cuMipmappedArrayCreateRequest& request) {
  if (call.driver().cuMipmappedArrayCreate == nullptr) return call.Finish(MissingEntry("cuMipmappedArrayCreate"));
  FinishArray<CUmipmappedArray>(
      call, request.pHandle, request.pMipmappedArrayDesc, request.numMipmapLevels, [&](CUmipmappedArray* made) {
        return call.driver().cuMipmappedArrayCreate(made, &request.pMipmappedArrayDesc, request.numMipmapLevels);
      });
}

}  // namespace tessera
