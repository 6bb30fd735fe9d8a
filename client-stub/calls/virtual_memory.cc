// The application's own use of virtual memory management. Reservations are in address_reservations.h; what is mapped is
// remembered for pointer questions and copies.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/host_allocation_calls.h"
#include "client-stub/memory/host_location.h"
#include "client-stub/session/session.h"
#include "client-stub/sharing/share_token.h"
#include "generated/client/virtual_memory.h"

namespace tessera {

CUresult Custom_cuMemAddressReserve(Call& call, CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                    unsigned long long flags) {
  if (!call.ok()) return call.result();
  if (ptr == nullptr || flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  uint64_t address = 0;
  const CUresult result = call.session().memory().reservations().Reserve(call, size, alignment, addr, &address);
  if (result == CUDA_SUCCESS) *ptr = address;
  return result;
}

CUresult Custom_cuMemAddressFree(Call& call, CUdeviceptr ptr, size_t size) {
  if (!call.ok()) return call.result();
  ClientMemory& memory = call.session().memory();
  const Range range{ptr, size};
  // As the driver: a range in which something is still mapped is not given back.
  if (memory.device().AnyIn(range) || memory.allocations().AnyIn(range)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  return memory.reservations().Free(call, range);
}

CUresult Custom_cuMemCreate(Call& call, CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                            unsigned long long flags) {
  if (!call.ok()) return call.result();
  if (handle == nullptr || prop == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (IsHostLocation(prop->location)) return CreateHostAllocation(call, handle, size, *prop, flags);
  TellClosedDescriptors();
  cuMemCreateRequest request;
  request.handle = call.Mint(HandleKind::kMemoryAllocation);
  if (!call.ok()) return call.result();
  request.size = size;
  request.prop = call.DeviceNumbers(*prop);
  if (!call.ok()) return call.result();
  request.prop.win32HandleMetaData = nullptr;
  request.flags = flags;
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) return result;
  const bool on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  call.session().memory().NoteAllocation(request.handle,
                                         {on_device ? prop->location.id : 0, static_cast<uint32_t>(prop->requestedHandleTypes)});
  *handle = request.handle.value();
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemRelease(Call& call, CUmemGenericAllocationHandle handle) {
  TellClosedDescriptors();
  const HandleId released = call.Use(HandleKind::kMemoryAllocation, uint64_t{handle});
  if (!call.ok()) return call.result();
  ClientMemory& memory = call.session().memory();
  if (memory.allocations().Has(released)) return memory.allocations().Release(call, released);
  ClientMemory::Physical physical = memory.AllocationOf(released);
  if (!memory.ReleaseAllocation(released)) return call.result();
  cuMemReleaseRequest request;
  request.handle = call.Free(HandleKind::kMemoryAllocation, uint64_t{handle});
  if (!call.ok()) return call.result();
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) {
    // The handle stays, and so does what is known of it.
    physical.references = 1;
    memory.NoteAllocation(released, physical);
  }
  return result;
}

CUresult Custom_cuMemMap(Call& call, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
  cuMemMapRequest request;
  request.handle = call.Use(HandleKind::kMemoryAllocation, uint64_t{handle});
  if (!call.ok()) return call.result();
  ClientMemory& memory = call.session().memory();
  // The driver would also map beyond the end; there may be something of the program's.
  if (!memory.reservations().Covers(Range{ptr, size})) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (memory.allocations().Has(request.handle)) return MapHostAllocation(call, Range{ptr, size}, offset, request.handle, flags);
  if (memory.allocations().AnyIn(Range{ptr, size})) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  request.ptr = ptr;
  request.size = size;
  request.offset = offset;
  request.flags = flags;
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) return result;
  DeviceAllocation mapping;
  mapping.range = Range{ptr, size};
  mapping.kind = DeviceAllocation::Kind::kMapped;
  const ClientMemory::Physical physical = memory.AllocationOf(request.handle);
  mapping.device = physical.device;
  mapping.handle_types = physical.handle_types;
  mapping.physical = request.handle;
  memory.device().Add(mapping);
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemUnmap(Call& call, CUdeviceptr ptr, size_t size) {
  if (!call.ok()) return call.result();
  ClientMemory& memory = call.session().memory();
  // As the driver, for which the beginning has to be reserved: the range may go on beyond, and where nothing is mapped
  // nothing is unmapped.
  if (!memory.reservations().Contains(ptr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuMemUnmapRequest request;
  request.ptr = ptr;
  request.size = size % AddressReservations::kGranuleBytes == 0 ? memory.reservations().ReservedFrom(ptr, size) : size;
  const Range range{ptr, request.size};
  if (memory.allocations().AnyIn(range)) {
    const CUresult result = memory.allocations().Unmap(call, range);
    if (result != CUDA_SUCCESS || !memory.device().AnyIn(range)) return result;
  }
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) memory.device().RemoveMappings(range);
  return result;
}

CUresult Custom_cuMemSetAccess(Call& call, CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  if (!call.ok()) return call.result();
  if (desc == nullptr && count != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (Allocations(call).AnyIn(Range{ptr, size})) return SetMixedAccess(call, Range{ptr, size}, desc, count);
  cuMemSetAccessRequest request;
  request.ptr = ptr;
  request.size = size;
  CUmemAccessDesc* const numbered = request.desc.Allocate(count);
  for (size_t i = 0; i < count; ++i) numbered[i] = call.DeviceNumbers(desc[i]);
  request.count = count;
  return call.ok() ? call.Sync(request) : call.result();
}

CUresult Custom_cuMemGetAccess(Call& call, unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  if (!call.ok()) return call.result();
  if (flags == nullptr || location == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (Allocations(call).MappingAt(ptr).bytes != 0) return Allocations(call).Access(call, ptr, *location, flags);
  cuMemGetAccessRequest request;
  request.location = call.DeviceNumbers(*location);
  request.ptr = ptr;
  if (!call.ok()) return call.result();
  cuMemGetAccessReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *flags = reply.flags;
  return result;
}

CUresult Custom_cuMemGetAllocationGranularity(Call& call, size_t* granularity, const CUmemAllocationProp* prop,
                                              CUmemAllocationGranularity_flags option) {
  if (!call.ok()) return call.result();
  if (granularity == nullptr || prop == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (IsHostLocation(prop->location)) return HostGranularity(call, granularity, option);
  cuMemGetAllocationGranularityRequest request;
  request.prop = call.DeviceNumbers(*prop);
  request.option = option;
  if (!call.ok()) return call.result();
  cuMemGetAllocationGranularityReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *granularity = reply.granularity;
  return result;
}

CUresult Custom_cuMemGetAllocationPropertiesFromHandle(Call& call, CUmemAllocationProp* prop,
                                                       CUmemGenericAllocationHandle handle) {
  if (!call.ok()) return call.result();
  if (prop == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuMemGetAllocationPropertiesFromHandleRequest request;
  request.handle = call.Use(HandleKind::kMemoryAllocation, uint64_t{handle});
  if (!call.ok()) return call.result();
  if (Allocations(call).Has(request.handle)) return Allocations(call).Properties(call, request.handle, prop);
  cuMemGetAllocationPropertiesFromHandleReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *prop = call.Ordinals(reply.prop);
  return result;
}

CUresult Custom_cuMemRetainAllocationHandle(Call& call, CUmemGenericAllocationHandle* handle, void* addr) {
  if (SeveralServers()) call.RouteToAddress(reinterpret_cast<uint64_t>(addr));
  if (!call.ok()) return call.result();
  ClientMemory& memory = call.session().memory();
  if (handle != nullptr && memory.allocations().MappingAt(reinterpret_cast<uint64_t>(addr)).bytes != 0) {
    HandleId id;
    const CUresult result = memory.allocations().Retain(call, reinterpret_cast<uint64_t>(addr), &id);
    if (result == CUDA_SUCCESS) *handle = id.value();
    return result;
  }
  const auto mapping = memory.device().Find(reinterpret_cast<uint64_t>(addr));
  if (handle == nullptr || !mapping || mapping->kind != DeviceAllocation::Kind::kMapped) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  // The same handle once more, as the driver gives it: programs release it once for each time they got it.
  if (memory.RetainAllocation(mapping->physical)) {
    *handle = mapping->physical.value();
    return CUDA_SUCCESS;
  }
  cuMemRetainAllocationHandleRequest request;
  request.handle = call.Mint(HandleKind::kMemoryAllocation);
  if (!call.ok()) return call.result();
  request.address = reinterpret_cast<uint64_t>(addr);
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) return result;
  memory.NoteAllocation(request.handle, {mapping->device, mapping->handle_types});
  memory.device().ReplacePhysical(mapping->physical, request.handle);
  *handle = request.handle.value();
  return CUDA_SUCCESS;
}

}  // namespace tessera
