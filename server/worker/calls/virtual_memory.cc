// The application's own use of virtual memory management: its address ranges come out of the session's device window.

#include <cuda.h>

#include "generated/driver_table.h"
#include "generated/server/virtual_memory.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/worker.h"

namespace tessera {

void Do_cuMemAddressReserve(CallContext& call, const cuMemAddressReserveRequest& request) {
  // As the driver: whole granules, alignments that are powers of two, no flags.
  if (request.size == 0 || request.size % AddressSpace::kGranuleBytes != 0 || request.flags != 0 ||
      (request.alignment & (request.alignment - 1)) != 0) {
    return call.Finish(CUDA_ERROR_INVALID_VALUE);
  }
  Range range;
  const CUresult result = call.worker().Part<SessionMemory>().heap().ReserveAddresses(request.size, request.alignment,
                                                                                      request.addr, &range);
  cuMemAddressReserveReply reply;
  reply.ptr = range.base;
  call.Finish(result, reply);
}

void Do_cuMemAddressFree(CallContext& call, const cuMemAddressFreeRequest& request) {
  call.Finish(call.worker().Part<SessionMemory>().heap().ReleaseAddresses(request.ptr, request.size));
}

void Do_cuMemCreate(CallContext& call, const cuMemCreateRequest& request) {
  CUmemAllocationProp properties = request.prop;
  properties.win32HandleMetaData = nullptr;
  CUmemGenericAllocationHandle allocation = 0;
  CUresult result = call.driver().cuMemCreate(&allocation, request.size, &properties, request.flags);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
      call.worker().Part<SessionMemory>().heap().ReleaseCached(properties.location.id) != 0) {
    result = call.driver().cuMemCreate(&allocation, request.size, &properties, request.flags);
  }
  if (result == CUDA_SUCCESS) call.New(request.handle, allocation);
  call.Finish(result, cuMemCreateReply{});
}

void Do_cuMemUnmap(CallContext& call, const cuMemUnmapRequest& request) {
  if (call.worker().Part<SessionMemory>().heap().OwnsAddress(request.ptr)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  call.Finish(call.driver().cuMemUnmap(request.ptr, request.size));
}

void Do_cuMemSetAccess(CallContext& call, const cuMemSetAccessRequest& request) {
  if (call.worker().Part<SessionMemory>().heap().OwnsAddress(request.ptr)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  call.Finish(call.driver().cuMemSetAccess(request.ptr, request.size, request.desc.data(), request.desc.size()));
}

void Do_cuMemRetainAllocationHandle(CallContext& call, const cuMemRetainAllocationHandleRequest& request) {
  if (call.worker().Part<SessionMemory>().heap().OwnsAddress(request.address)) {
    return call.Finish(CUDA_ERROR_INVALID_VALUE);
  }
  CUmemGenericAllocationHandle allocation = 0;
  // The driver only looks the address up.
  const CUresult result = call.driver().cuMemRetainAllocationHandle(&allocation, reinterpret_cast<void*>(request.address));
  if (result == CUDA_SUCCESS) call.New(request.handle, allocation);
  call.Finish(result, cuMemRetainAllocationHandleReply{});
}

}  // namespace tessera
