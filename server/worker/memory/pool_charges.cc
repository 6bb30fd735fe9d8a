#include "server/worker/memory/pool_charges.h"

#include <thread>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"

namespace tessera {
namespace {

constexpr uint64_t kPoolGranuleBytes = uint64_t{2} << 20;  // pools reserve multiples of at least this

}  // namespace

uint64_t PoolCharges::Attribute(CUmemoryPool pool, CUmemPool_attribute attribute) const {
  cuuint64_t bytes = 0;
  return driver_.cuMemPoolGetAttribute(pool, attribute, &bytes) == CUDA_SUCCESS ? bytes : 0;
}

void PoolCharges::MeasureOne(CUmemoryPool handle, Pool& pool) const {
  cuuint64_t reserved = 0;
  if (driver_.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS) return;
  if (reserved > pool.counted_bytes) ledger_.Add(pool.device, pool.kind, reserved - pool.counted_bytes);
  if (reserved < pool.counted_bytes) ledger_.Give(pool.device, pool.kind, pool.counted_bytes - reserved);
  pool.counted_bytes = reserved;
}

uint64_t PoolCharges::GrowthFor(CUmemoryPool pool, uint64_t bytes) const {
  const uint64_t reserved = Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  const uint64_t used = Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  if (reserved >= used && reserved - used >= bytes) return 0;
  return bytes > UINT64_MAX - kPoolGranuleBytes ? bytes : (bytes + kPoolGranuleBytes - 1) / kPoolGranuleBytes * kPoolGranuleBytes;
}

CUdevice PoolCharges::DeviceOf(CUmemoryPool pool) const {
  int count = 0;
  if (driver_.cuDeviceGetCount(&count) != CUDA_SUCCESS) return -1;
  for (CUdevice device = 0; device < count; ++device) {
    CUmemoryPool own = nullptr;
    if (driver_.cuDeviceGetDefaultMemPool(&own, device) == CUDA_SUCCESS && own == pool) return device;
  }
  return -1;
}

PoolCharges::Shared PoolCharges::Find(CUmemoryPool pool) {
  if (const auto found = pools_.find(pool); found != pools_.end()) return found->second;
  const CUdevice device = DeviceOf(pool);
  return device < 0 ? nullptr : pools_.emplace(pool, std::make_shared<Pool>(ledger_, device)).first->second;
}

void PoolCharges::Made(CUmemoryPool pool, CUdevice device) {
  MutexLock lock(mutex_);
  pools_[pool] = std::make_shared<Pool>(ledger_, device);
}

bool PoolCharges::Imported(CUdeviceptr address, uint64_t bytes) {
  int device = 0;
  if (driver_.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS) return true;
  // Also without a limit: one that comes later counts it.
  if (!ledger_.Take(device, MemoryKind::kImports, bytes)) return false;
  const auto one = std::make_shared<Pool>(ledger_, device, MemoryKind::kImports);
  one->counted_bytes = bytes;
  MutexLock lock(mutex_);
  live_[address] = one;
  any_.store(true, std::memory_order_release);
  return true;
}

CUresult PoolCharges::Allocate(CUdevice current, CUmemoryPool pool, uint64_t bytes, CUstream stream, CUdeviceptr* address,
                               const std::function<CUresult()>& allocate) {
  if (pool == nullptr && driver_.cuDeviceGetMemPool(&pool, current) != CUDA_SUCCESS) return allocate();  // it fails and says why
  MutexLock lock(mutex_);
  const Shared one = Find(pool);
  if (one == nullptr || !ledger_.limited(one->device)) return allocate();
  const CUdevice device = one->device;
  MeasureOne(pool, *one);
  uint64_t growth = GrowthFor(pool, bytes);
  if (!ledger_.Take(device, MemoryKind::kPools, growth)) {
    TrimAll(device);
    growth = GrowthFor(pool, bytes);
    if (!ledger_.Take(device, MemoryKind::kPools, growth)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  one->counted_bytes += growth;
  CUresult result = allocate();
  const uint64_t reserved = Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  if (result == CUDA_SUCCESS && reserved > one->counted_bytes) {
    const uint64_t more = reserved - one->counted_bytes;
    if (ledger_.Take(device, MemoryKind::kPools, more)) {
      one->counted_bytes += more;
    } else {
      driver_.cuMemFreeAsync(*address, stream);
      *address = 0;
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  MeasureOne(pool, *one);
  if (result == CUDA_SUCCESS && *address != 0) {
    live_[*address] = one;
    any_.store(true, std::memory_order_release);
  }
  return result;
}

PoolCharges::Freeing PoolCharges::BeginFree(CUdeviceptr address) {
  if (!any_.load(std::memory_order_acquire)) return nullptr;
  MutexLock lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return nullptr;
  Freeing freeing = std::move(found->second);
  live_.erase(found);
  ending_.fetch_add(1, std::memory_order_relaxed);
  return freeing;
}

void PoolCharges::EndFree(Freeing freeing) {
  freeing.reset();
  ended_.store(true, std::memory_order_release);
  ending_.fetch_sub(1, std::memory_order_release);
}

void PoolCharges::UndoFree(CUdeviceptr address, Freeing freeing) {
  MutexLock lock(mutex_);
  live_[address] = std::static_pointer_cast<Pool>(std::move(freeing));
  ending_.fetch_sub(1, std::memory_order_release);
}

std::shared_ptr<void> PoolCharges::Of(CUmemoryPool pool) {
  MutexLock lock(mutex_);
  return Find(pool);
}

void PoolCharges::Destroyed(CUmemoryPool pool) {
  MutexLock lock(mutex_);
  pools_.erase(pool);
}

void PoolCharges::Measure(CUdevice device) {
  MutexLock lock(mutex_);
  for (const auto& [handle, pool] : pools_) {
    if (pool->device == device) MeasureOne(handle, *pool);
  }
}

bool PoolCharges::Trim(CUdevice device) {
  const uint64_t deadline_ns = MonotonicNs() + kEndsNs;
  while (ending_.load(std::memory_order_acquire) != 0 && MonotonicNs() < deadline_ns) std::this_thread::yield();
  MutexLock lock(mutex_);
  // A free may have ended between the refusal and this call.
  const bool ended = ended_.exchange(false, std::memory_order_acquire);
  return TrimAll(device) || ended;
}

bool PoolCharges::TrimAll(CUdevice device) {
  bool any = false;
  for (const auto& [handle, pool] : pools_) {
    if (pool->device != device) continue;
    const uint64_t before = pool->counted_bytes;
    driver_.cuMemPoolTrimTo(handle, 0);
    MeasureOne(handle, *pool);
    any = any || pool->counted_bytes < before;
  }
  return any;
}

}  // namespace tessera
