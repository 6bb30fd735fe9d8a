// Pinned and registered host memory. The device address of host memory is its host address.
#include <sys/mman.h>

#include <algorithm>

#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/memory/device_memory.h"

using namespace tessera::emulator;

namespace {

constexpr unsigned kAllocFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;

CUresult AllocateHost(void** out, size_t size_bytes, unsigned flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(out == nullptr || size_bytes == 0 || (flags & ~kAllocFlags) != 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckUnsafeCall());
  auto allocation = std::make_shared<Allocation>();
  allocation->size_bytes = size_bytes;
  allocation->mapped_bytes = RoundUp(size_bytes, kPageBytes);
  RETURN_IF(allocation->mapped_bytes < size_bytes, CUDA_ERROR_OUT_OF_MEMORY);
  allocation->base = MemoryTable::MapPages(allocation->mapped_bytes, false);
  RETURN_IF(allocation->base == 0, CUDA_ERROR_OUT_OF_MEMORY);
  allocation->kind = MemoryKind::kHost;
  allocation->device = context->device().number();
  allocation->context = context->owner_handle();
  allocation->host_flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;  // with unified addressing all pinned memory is mapped
  GetDriver().memory.Insert(allocation);
  *out = reinterpret_cast<void*>(allocation->base);
  return CUDA_SUCCESS;
}

// Whether the pages of the range are mapped in this process: what pinning would find out.
bool PagesExist(uint64_t begin, uint64_t end) {
  constexpr uint64_t kPagesAtOnce = 4096;
  unsigned char resident[kPagesAtOnce];
  for (uint64_t page = begin & ~(kPageBytes - 1); page < end; page += kPagesAtOnce * kPageBytes) {
    const uint64_t bytes = std::min(RoundUp(end, kPageBytes) - page, kPagesAtOnce * kPageBytes);
    if (mincore(reinterpret_cast<void*>(page), bytes, resident) != 0) return false;
  }
  return true;
}

AllocationPtr FindHost(const void* pointer) {
  AllocationPtr allocation = GetDriver().memory.Find(reinterpret_cast<uint64_t>(pointer));
  return allocation != nullptr && allocation->is_host() ? allocation : nullptr;
}

CUresult WaitForOwner(const Allocation& allocation) {
  const ContextPtr owner = GetDriver().contexts.Find(allocation.context);
  return owner != nullptr ? owner->Synchronize() : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) { return AllocateHost(pp, bytesize, Flags); }

CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) { return AllocateHost(pp, bytesize, 0); }

CUresult cuMemFreeHost(void* p) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  const AllocationPtr allocation = FindHost(p);
  RETURN_IF(allocation == nullptr || allocation->kind != MemoryKind::kHost || allocation->base != reinterpret_cast<uint64_t>(p),
            CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(WaitForOwner(*allocation));
  RETURN_IF(GetDriver().memory.Remove(allocation->base) == nullptr, CUDA_ERROR_INVALID_VALUE);
  GetDriver().memory.RetirePages(allocation->base, allocation->mapped_bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  const AllocationPtr allocation = FindHost(p);
  RETURN_IF(pFlags == nullptr || allocation == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pFlags = allocation->host_flags;
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(pdptr == nullptr || Flags != 0 || FindHost(p) == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pdptr = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  constexpr unsigned kFlags =
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  RETURN_IF(p == nullptr || bytesize == 0 || (Flags & ~kFlags) != 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0, CUDA_ERROR_NOT_SUPPORTED);
  RETURN_ON_ERROR(CheckUnsafeCall());
  const uint64_t base = reinterpret_cast<uint64_t>(p);
  RETURN_IF(base + bytesize < base || !PagesExist(base, base + bytesize), CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(GetDriver().memory.Overlaps(base, bytesize), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  auto allocation = std::make_shared<Allocation>();
  allocation->base = base;
  allocation->size_bytes = bytesize;
  allocation->kind = MemoryKind::kRegistered;
  allocation->device = context->device().number();
  allocation->context = context->owner_handle();
  allocation->host_flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP;
  GetDriver().memory.Insert(allocation);
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* p) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  const AllocationPtr allocation = FindHost(p);
  RETURN_IF(
      allocation == nullptr || allocation->kind != MemoryKind::kRegistered || allocation->base != reinterpret_cast<uint64_t>(p),
      CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  RETURN_ON_ERROR(WaitForOwner(*allocation));
  return GetDriver().memory.Remove(allocation->base) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

}  // extern "C"
