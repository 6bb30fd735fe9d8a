// cuMemAlloc and its relatives, address ranges, memory information.
#include <cstring>

#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/memory/device_memory.h"

using namespace tessera::emulator;

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(dptr == nullptr || bytesize == 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckUnsafeCall());
  uint64_t address = 0;
  RETURN_ON_ERROR(AllocateDeviceMemory(*context, bytesize, MemoryKind::kDevice, true, &address));
  *dptr = address;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
  RETURN_IF(pPitch == nullptr || WidthInBytes == 0 || Height == 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16, CUDA_ERROR_INVALID_VALUE);
  const size_t pitch = RoundUp(WidthInBytes, 512);
  RETURN_IF(pitch < WidthInBytes || pitch > INT32_MAX, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(Height > SIZE_MAX / pitch, CUDA_ERROR_OUT_OF_MEMORY);
  RETURN_ON_ERROR(cuMemAlloc_v2(dptr, pitch * Height));
  *pPitch = pitch;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  if (dptr == 0) return CUDA_SUCCESS;
  RETURN_ON_ERROR(CheckUnsafeCall());
  Driver& driver = GetDriver();
  const AllocationPtr allocation = driver.memory.Find(dptr);
  RETURN_IF(allocation == nullptr || allocation->base != dptr, CUDA_ERROR_INVALID_VALUE);
  if (allocation->kind == MemoryKind::kPool || allocation->kind == MemoryKind::kGraph) {
    // Memory of a pool or graph may be freed this way too: then everything is waited for.
    RETURN_ON_ERROR(context->Synchronize());
    return cuMemFreeAsync(dptr, CU_STREAM_LEGACY) == CUDA_SUCCESS ? context->WaitFor(context->legacy()->tail())
                                                                  : CUDA_ERROR_INVALID_VALUE;
  }
  RETURN_IF(allocation->kind != MemoryKind::kDevice, CUDA_ERROR_INVALID_VALUE);
  // Freeing waits for work that may still use the memory.
  const ContextPtr owner = driver.contexts.Find(allocation->context);
  if (owner != nullptr) RETURN_ON_ERROR(owner->Synchronize());
  return FreeDeviceMemory(dptr, MemoryKind::kDevice) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  const Device& device = context->device();
  if (free != nullptr) *free = device.total_bytes() - device.used_bytes();
  if (total != nullptr) *total = device.total_bytes();
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  const AllocationPtr allocation = GetDriver().memory.Find(dptr);
  RETURN_IF(allocation == nullptr || allocation->free_pending, CUDA_ERROR_NOT_FOUND);
  if (pbase != nullptr) *pbase = allocation->base;
  if (psize != nullptr) *psize = allocation->size_bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
