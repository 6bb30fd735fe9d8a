#include "server/emulator/driver/memory/pool_memory.h"

#include <sys/mman.h>

#include <utility>

namespace tessera::emulator {

CUresult AddPoolMemory(const PoolPtr& pool, uint64_t handle, uint64_t size_bytes, std::shared_ptr<NamedMemory> backing,
                       CUdeviceptr* out) {
  auto allocation = std::make_shared<Allocation>();
  allocation->mapped_bytes = RoundUp(size_bytes, kPageBytes);
  RETURN_IF(allocation->mapped_bytes < size_bytes || !pool->Take(allocation->mapped_bytes), CUDA_ERROR_OUT_OF_MEMORY);
  allocation->base = GetDriver().memory.MapLowPages(allocation->mapped_bytes, backing == nullptr);
  if (backing != nullptr && allocation->base != 0) {
    void* const place = reinterpret_cast<void*>(allocation->base);
    if (mmap(place, allocation->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, backing->fd(), 0) == MAP_FAILED) {
      munmap(place, allocation->mapped_bytes);
      allocation->base = 0;
    }
  }
  if (allocation->base == 0) {
    pool->GiveBack(allocation->mapped_bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  allocation->size_bytes = size_bytes;
  allocation->kind = MemoryKind::kPool;
  allocation->device = pool->device();
  allocation->owner = handle;
  allocation->backing = std::move(backing);
  {
    std::lock_guard lock(pool->mutex);
    allocation->read_mask = pool->read_mask;
    allocation->write_mask = pool->write_mask;
  }
  GetDriver().memory.Insert(allocation);
  *out = allocation->base;
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
