// The application's own use of virtual memory management: its address ranges are where the client has reserved
// them, and nothing is mapped, unmapped or allowed elsewhere.

#include <cuda.h>

#include "generated/driver_table.h"
#include "generated/server/virtual_memory.h"
#include "server/worker/call_context.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/worker.h"

namespace tessera {

namespace {

ReservedRanges& Reserved(CallContext& call) { return call.worker().parts().memory().reserved(); }

DeviceHeap& Heap(CallContext& call) { return call.worker().parts().memory().heap(); }

Charges& Held(CallContext& call) { return call.worker().parts().memory().charges(); }

// Where the driver has granted none of the client's places: beside the session's memory, in its device window.
void ReserveInWindow(CallContext& call, uint64_t bytes) {
  cuMemAddressReserveReply reply;
  reply.reserved = false;
  Range range;
  if (bytes == 0 || bytes % AddressSpace::kGranuleBytes != 0) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  const CUresult result = Heap(call).ReserveForeign(bytes, &range);
  if (result == CUDA_SUCCESS) {
    reply.base = range.base;
    reply.reserved = Reserved(call).AddInWindow(range);
    if (!reply.reserved) Heap(call).ReleaseForeign(range.base);
  }
  call.Finish(result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result, reply);
}

}  // namespace

void Do_cuMemAddressReserve(CallContext& call, const cuMemAddressReserveRequest& request) {
  if (request.base == 0) return ReserveInWindow(call, request.bytes);
  cuMemAddressReserveReply reply;
  reply.base = request.base;
  const CUresult result = Reserved(call).Reserve(Range{request.base, request.bytes}, &reply.reserved);
  call.Finish(result, reply);
}

void Do_cuMemAddressFree(CallContext& call, const cuMemAddressFreeRequest& request) {
  const Range range{request.ptr, request.size};
  if (!Reserved(call).RemoveInWindow(range)) return call.Finish(Reserved(call).Release(range));
  Heap(call).ReleaseForeign(range.base);
  call.Finish(CUDA_SUCCESS);
}

void Do_cuMemCreate(CallContext& call, const cuMemCreateRequest& request) {
  CUmemAllocationProp properties = request.prop;
  properties.win32HandleMetaData = nullptr;
  CUmemGenericAllocationHandle allocation = 0;
  const auto create = [&] { return call.driver().cuMemCreate(&allocation, request.size, &properties, request.flags); };
  const bool on_device = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const CUdevice device = properties.location.id;
  MemoryLedger& ledger = Held(call).ledger();
  const auto charged = [&] { return Charged(ledger, device, MemoryKind::kAllocations, request.size, create); };
  const CUresult result = on_device ? WithRoom(call.worker(), device, request.size, charged) : create();
  if (result == CUDA_SUCCESS) {
    if (on_device) Held(call).physical().Made(request.handle, HeldMemory(ledger, device, MemoryKind::kAllocations, request.size));
    call.New(request.handle, allocation);
  }
  call.Finish(result, cuMemCreateReply{});
}

void Do_cuMemMap(CallContext& call, const cuMemMapRequest& request) {
  const auto handle = call.Use<CUmemGenericAllocationHandle>(request.handle);
  if (!call.ok()) return call.Finish(call.error());
  if (!Reserved(call).Contains(request.ptr, request.size)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  const CUresult result = call.driver().cuMemMap(request.ptr, request.size, request.offset, handle, request.flags);
  if (result == CUDA_SUCCESS) Held(call).physical().Mapped(Range{request.ptr, request.size}, request.handle);
  call.Finish(result);
}

void Do_cuMemUnmap(CallContext& call, const cuMemUnmapRequest& request) {
  if (!Reserved(call).Contains(request.ptr, request.size)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  const CUresult result = call.driver().cuMemUnmap(request.ptr, request.size);
  if (result == CUDA_SUCCESS) Held(call).physical().Unmapped(Range{request.ptr, request.size});
  call.Finish(result);
}

void Do_cuMemSetAccess(CallContext& call, const cuMemSetAccessRequest& request) {
  if (!Reserved(call).Contains(request.ptr, request.size)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  call.Finish(call.driver().cuMemSetAccess(request.ptr, request.size, request.desc.data(), request.desc.size()));
}

void Do_cuMemRetainAllocationHandle(CallContext& call, const cuMemRetainAllocationHandleRequest& request) {
  if (!Reserved(call).Contains(request.address, 1)) return call.Finish(CUDA_ERROR_INVALID_VALUE);
  CUmemGenericAllocationHandle allocation = 0;
  // The driver only looks the address up.
  const CUresult result = call.driver().cuMemRetainAllocationHandle(&allocation, reinterpret_cast<void*>(request.address));
  if (result == CUDA_SUCCESS) {
    Held(call).physical().Retained(request.handle, request.address);
    call.New(request.handle, allocation);
  }
  call.Finish(result, cuMemRetainAllocationHandleReply{});
}

}  // namespace tessera
