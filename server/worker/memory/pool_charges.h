// Counts the memory that the driver's pools have reserved, in the session's ledger.
//
// A pool grows by more than an allocation asks for, and keeps what is freed. So this counts what an allocation may need before
// it, and what the pool has reserved (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) after it. Where the device has no limit the driver is
// not asked. Source: CUDA Driver API, "Stream Ordered Memory Allocator".
//
// Any thread. Driver calls are made under a lock; none of them waits for GPU work.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "protocol/base/mutex.h"
#include "server/worker/memory/memory_ledger.h"

namespace tessera {

class PoolCharges {
 public:
  static constexpr uint64_t kEndsNs = 50'000'000;

  // Both outlive it.
  PoolCharges(const DriverTable& driver, MemoryLedger& ledger) : driver_(driver), ledger_(ledger) {}

  // Returns the result of `allocate`, which allocates `bytes` from `pool` (null: the pool of the device `current`) and writes
  // their address to `address`. CUDA_ERROR_OUT_OF_MEMORY: the session may not hold what the pool would have to reserve, or the
  // driver has not so much. An allocation that made the pool grow too far is freed again, in the order of `stream`.
  CUresult Allocate(CUdevice current, CUmemoryPool pool, uint64_t bytes, CUstream stream, CUdeviceptr* address,
                    const std::function<CUresult()>& allocate) EXCLUDES(mutex_);
  // Counts the `bytes` of a pointer out of another process's pool, which count for this process as well. False: the session may
  // not hold them.
  bool Imported(CUdeviceptr address, uint64_t bytes) EXCLUDES(mutex_);
  // Notes a new pool of memory on `device`.
  void Made(CUmemoryPool pool, CUdevice device) EXCLUDES(mutex_);
  // An allocation that is being freed. It holds its part of a destroyed pool until EndFree(). By then the address may be another
  // allocation's, since pools hand out again what a stream frees.
  using Freeing = std::shared_ptr<void>;
  // Begins a free. Null: neither EndFree() nor UndoFree() is needed for this allocation.
  Freeing BeginFree(CUdeviceptr address) EXCLUDES(mutex_);
  // Ends a free: all work that was enqueued before the free is done.
  void EndFree(Freeing freeing);
  // Undoes BeginFree(): the driver has refused the free.
  void UndoFree(CUdeviceptr address, Freeing freeing) EXCLUDES(mutex_);
  // Returns what is counted for the pool; null: it has no memory of its own. Who keeps it (an exported descriptor) holds what the
  // pool had when it was destroyed.
  std::shared_ptr<void> Of(CUmemoryPool pool) EXCLUDES(mutex_);
  // The pool is destroyed. The driver keeps the memory of its allocations until they are freed.
  void Destroyed(CUmemoryPool pool) EXCLUDES(mutex_);
  // Counts what the pools of `device` have reserved by now.
  void Measure(CUdevice device) EXCLUDES(mutex_);
  // Makes the pools of `device` give back what they do not use, as the driver does where an allocation fails. True: some memory
  // became free. Waits up to kEndsNs for frees whose end another thread is about to report.
  bool Trim(CUdevice device) EXCLUDES(mutex_);

 private:
  struct Pool {
    Pool(MemoryLedger& pool_ledger, CUdevice pool_device, MemoryKind pool_kind = MemoryKind::kPools)
        : ledger(pool_ledger), device(pool_device), kind(pool_kind) {}
    ~Pool() { ledger.Give(device, kind, counted_bytes); }
    MemoryLedger& ledger;
    const CUdevice device;
    const MemoryKind kind;
    uint64_t counted_bytes = 0;
  };
  using Shared = std::shared_ptr<Pool>;

  // Returns the device of a pool that this has not seen yet: it is some device's default pool. -1: it is no device's.
  CUdevice DeviceOf(CUmemoryPool pool) const;
  Shared Find(CUmemoryPool pool) REQUIRES(mutex_);
  uint64_t Attribute(CUmemoryPool pool, CUmemPool_attribute attribute) const;
  // Counts what the pool has reserved by now; nothing changes where the driver does not say.
  void MeasureOne(CUmemoryPool handle, Pool& pool) const;
  // Returns the growth that an allocation of `bytes` may cause, as far as it is known before.
  uint64_t GrowthFor(CUmemoryPool pool, uint64_t bytes) const;
  bool TrimAll(CUdevice device) REQUIRES(mutex_);

  const DriverTable& driver_;
  MemoryLedger& ledger_;
  std::atomic<bool> any_{false};     // live_ had an entry
  std::atomic<uint32_t> ending_{0};  // frees that have begun and have not ended
  std::atomic<bool> ended_{false};   // a free has ended since Trim() last looked
  Mutex mutex_;
  std::map<CUmemoryPool, Shared> pools_ GUARDED_BY(mutex_);
  std::map<CUdeviceptr, Shared> live_ GUARDED_BY(mutex_);  // allocations: a destroyed pool lives as long as they do
};

}  // namespace tessera
