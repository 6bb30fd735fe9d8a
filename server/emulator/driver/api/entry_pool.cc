#include <sys/random.h>

#include <cstring>

#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/graphs/graph.h"
#include "server/emulator/driver/memory/pool_memory.h"

namespace tessera::emulator {

namespace {

class FreeCommand : public Command {
 public:
  FreeCommand(PoolPtr pool, uint64_t address) : pool_(std::move(pool)), address_(address) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  CUresult Execute(Context&) override {
    MemoryTable& memory = GetDriver().memory;
    const AllocationPtr allocation = memory.Remove(address_);
    if (allocation == nullptr) return CUDA_SUCCESS;
    memory.RetirePages(allocation->base, allocation->mapped_bytes);
    pool_->GiveBack(allocation->mapped_bytes);
    return CUDA_SUCCESS;
  }
  void Skip(Context& context) override { Execute(context); }

 private:
  const PoolPtr pool_;
  const uint64_t address_;
};

CUresult AllocateFrom(CUmemoryPool pool_handle, CUdeviceptr* out, size_t size_bytes, CUstream stream_handle) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(stream_handle, &context, &stream));
  RETURN_IF(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  const uint64_t handle =
      pool_handle != nullptr ? reinterpret_cast<uint64_t>(pool_handle) : context->device().current_pool.load();
  const PoolPtr pool = GetDriver().pools.Find(handle);
  RETURN_IF(pool == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (IsCapturing(*stream)) {  // an allocation node, whose memory is the graph's rather than the pool's
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, pool->device()};
    params.bytesize = size_bytes;
    GraphMemoryPtr memory;
    RETURN_ON_ERROR(GraphMemory::Make(params, &memory));
    RETURN_ON_ERROR(Enqueue(context, stream, std::make_shared<AllocCommand>(memory)));
    *out = memory->address();
    return CUDA_SUCCESS;
  }
  RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  RETURN_ON_ERROR(CheckUnsafeCall());
  if (size_bytes == 0) {
    *out = 0;
    return CUDA_SUCCESS;
  }
  // Imported pools do not support new allocations.
  RETURN_IF(pool->imported(), CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<NamedMemory> backing;
  if (pool->shared()) {
    const uint64_t bytes = RoundUp(size_bytes, kPageBytes);
    backing = bytes >= size_bytes ? NamedMemory::Create(bytes) : nullptr;
    RETURN_IF(backing == nullptr, CUDA_ERROR_OUT_OF_MEMORY);
  }
  return AddPoolMemory(pool, handle, size_bytes, std::move(backing), out);
}

CUresult FindPool(CUmemoryPool handle, PoolPtr* pool) {
  RETURN_ON_ERROR(CheckEntry());
  *pool = GetDriver().pools.Find(handle);
  return *pool != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult LocationDevice(const CUmemLocation* location, int* device) {
  RETURN_IF(location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE || GetDriver().device(location->id) == nullptr,
            CUDA_ERROR_INVALID_VALUE);
  *device = location->id;
  return CUDA_SUCCESS;
}

}  // namespace

}  // namespace tessera::emulator

using namespace tessera::emulator;

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return AllocateFrom(nullptr, dptr, bytesize, hStream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  RETURN_IF(pool == nullptr, CUDA_ERROR_INVALID_VALUE);
  return AllocateFrom(pool, dptr, bytesize, hStream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  if (dptr == 0) return CUDA_SUCCESS;
  if (IsCapturing(*stream)) {
    const GraphMemoryPtr memory = GraphMemory::Find(dptr);
    std::lock_guard lock(GetDriver().graph_mutex);
    // Only what a graph allocates may be freed in one, and once.
    RETURN_IF(memory == nullptr || stream->capture == nullptr || Frees(*stream->capture->graph, memory),
              CUDA_ERROR_INVALID_VALUE);
    return Enqueue(context, stream, std::make_shared<GraphFreeCommand>(memory));
  }
  RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  RETURN_ON_ERROR(CheckUnsafeCall());
  Driver& driver = GetDriver();
  if (const GraphMemoryPtr memory = GraphMemory::Find(dptr)) {
    std::lock_guard lock(driver.graph_mutex);
    GraphMemoryPlan plan;
    plan.Free(memory);
    RETURN_ON_ERROR(plan.Commit(false, nullptr));
    context->Submit(stream, std::make_shared<GraphFreeCommand>(memory));
    return CUDA_SUCCESS;
  }
  const AllocationPtr allocation = driver.memory.Find(dptr);
  RETURN_IF(allocation == nullptr || allocation->base != dptr, CUDA_ERROR_INVALID_VALUE);
  if (allocation->kind == MemoryKind::kDevice) {
    // Allowed for memory of cuMemAlloc too; it is then freed as cuMemFree does.
    return cuMemFree_v2(dptr);
  }
  RETURN_IF(allocation->kind != MemoryKind::kPool, CUDA_ERROR_INVALID_VALUE);
  bool twice = true;  // an earlier free may also have run since we found the allocation
  driver.memory.Update(dptr, [&](Allocation& changed) {
    twice = changed.free_pending;
    changed.free_pending = true;
  });
  RETURN_IF(twice, CUDA_ERROR_INVALID_VALUE);
  const PoolPtr pool = driver.pools.Find(allocation->owner);
  RETURN_IF(pool == nullptr, CUDA_ERROR_INVALID_VALUE);
  context->Submit(stream, std::make_shared<FreeCommand>(pool, dptr));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  RETURN_ON_ERROR(CheckEntry());
  Device* device = GetDriver().device(dev);
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_DEVICE);
  RETURN_IF(pool_out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pool_out = reinterpret_cast<CUmemoryPool>(device->default_pool);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  RETURN_ON_ERROR(CheckEntry());
  Device* device = GetDriver().device(dev);
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_DEVICE);
  RETURN_IF(pool == nullptr, CUDA_ERROR_INVALID_VALUE);
  *pool = reinterpret_cast<CUmemoryPool>(device->current_pool.load());
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  Device* device = GetDriver().device(dev);
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_DEVICE);
  RETURN_IF(pool->device() != dev, CUDA_ERROR_INVALID_VALUE);
  device->current_pool = reinterpret_cast<uint64_t>(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(pool == nullptr || poolProps == nullptr || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED,
            CUDA_ERROR_INVALID_VALUE);
  RETURN_IF((poolProps->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0, CUDA_ERROR_NOT_SUPPORTED);
  RETURN_IF(poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
  int device = 0;
  RETURN_ON_ERROR(LocationDevice(&poolProps->location, &device));
  PoolPtr made;
  if (poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE) {
    made = std::make_shared<Pool>(*GetDriver().device(device), false, poolProps->maxSize);
  } else {
    uint64_t mark = 0;
    RETURN_IF(getrandom(&mark, sizeof mark, 0) != sizeof mark, CUDA_ERROR_OPERATING_SYSTEM);
    made = std::make_shared<Pool>(*GetDriver().device(device), mark | 1, false, poolProps->maxSize);
  }
  *pool = reinterpret_cast<CUmemoryPool>(GetDriver().pools.Add(std::move(made)));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(pool->is_default(), CUDA_ERROR_INVALID_VALUE);
  Device* device = GetDriver().device(pool->device());
  uint64_t current = reinterpret_cast<uint64_t>(handle);
  device->current_pool.compare_exchange_strong(current, device->default_pool);
  // Memory still allocated from it lives on: it then counts as the default pool's.
  const PoolPtr heir = GetDriver().pools.Find(device->default_pool);
  {
    std::scoped_lock lock(pool->mutex, heir->mutex);
    heir->used_bytes += pool->used_bytes;
    pool->used_bytes = 0;
  }
  GetDriver().memory.UpdateAll([&](Allocation& allocation) {
    if (allocation.kind == MemoryKind::kPool && allocation.owner == reinterpret_cast<uint64_t>(handle)) {
      allocation.owner = device->default_pool;
    }
  });
  GetDriver().pools.Remove(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  RETURN_ON_ERROR(CheckUnsafeCall());
  pool->TrimTo(minBytesToKeep);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void* value) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(pool->mutex);
  uint64_t wide = 0;
  int narrow = 0;
  memcpy(&narrow, value, sizeof narrow);
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: pool->reuse_event = narrow != 0; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: pool->reuse_opportunistic = narrow != 0; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool->reuse_internal = narrow != 0; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: memcpy(&pool->release_threshold_bytes, value, sizeof wide); return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      memcpy(&wide, value, sizeof wide);
      RETURN_IF(wide != 0, CUDA_ERROR_INVALID_VALUE);
      pool->reserved_high_bytes = pool->used_bytes + pool->kept_bytes;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      memcpy(&wide, value, sizeof wide);
      RETURN_IF(wide != 0, CUDA_ERROR_INVALID_VALUE);
      pool->used_high_bytes = pool->used_bytes;
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void* value) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  RETURN_ON_ERROR(CheckUnsafeCall());
  RETURN_IF(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(pool->mutex);
  auto put = [value](auto number) {
    memcpy(value, &number, sizeof number);
    return CUDA_SUCCESS;
  };
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return put(pool->reuse_event);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return put(pool->reuse_opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return put(pool->reuse_internal);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return put(pool->release_threshold_bytes);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return put(pool->used_bytes + pool->kept_bytes);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return put(pool->reserved_high_bytes);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return put(pool->used_bytes);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return put(pool->used_high_bytes);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* map, size_t count) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  RETURN_IF(map == nullptr || count == 0, CUDA_ERROR_INVALID_VALUE);
  uint32_t read_mask, write_mask;
  {
    std::lock_guard lock(pool->mutex);
    read_mask = pool->read_mask;
    write_mask = pool->write_mask;
  }
  for (size_t i = 0; i < count; ++i) {
    int device = 0;
    RETURN_IF(LocationDevice(&map[i].location, &device) != CUDA_SUCCESS, CUDA_ERROR_INVALID_DEVICE);
    const uint32_t bit = 1u << device;
    RETURN_IF(device == pool->device() && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CUDA_ERROR_INVALID_DEVICE);
    RETURN_IF(map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ, CUDA_ERROR_INVALID_VALUE);
    if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      read_mask |= bit;
      write_mask |= bit;
    } else {
      read_mask &= ~bit;
      write_mask &= ~bit;
    }
  }
  {
    std::lock_guard lock(pool->mutex);
    pool->read_mask = read_mask;
    pool->write_mask = write_mask;
  }
  GetDriver().memory.UpdateAll([&](Allocation& allocation) {
    if (allocation.kind != MemoryKind::kPool || allocation.owner != reinterpret_cast<uint64_t>(handle)) return;
    allocation.read_mask = read_mask;
    allocation.write_mask = write_mask;
  });
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  PoolPtr pool;
  RETURN_ON_ERROR(FindPool(handle, &pool));
  int device = 0;
  RETURN_IF(flags == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(LocationDevice(location, &device));
  std::lock_guard lock(pool->mutex);
  *flags = (pool->write_mask >> device & 1) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
  int device = 0;
  RETURN_ON_ERROR(CheckEntry());
  RETURN_ON_ERROR(LocationDevice(location, &device));
  RETURN_IF(type != CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
  return cuDeviceGetDefaultMemPool(pool_out, device);
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  int device = 0;
  RETURN_ON_ERROR(CheckEntry());
  RETURN_ON_ERROR(LocationDevice(location, &device));
  RETURN_IF(type != CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
  return cuDeviceGetMemPool(pool, device);
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  int device = 0;
  RETURN_ON_ERROR(CheckEntry());
  RETURN_ON_ERROR(LocationDevice(location, &device));
  RETURN_IF(type != CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
  return cuDeviceSetMemPool(device, pool);
}

}  // extern "C"
