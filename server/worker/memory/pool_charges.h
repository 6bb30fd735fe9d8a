// Memory that the driver's pools have reserved, in the session's ledger.
//
// A pool grows by more than it is asked for, and keeps what is freed. So what an allocation may need is counted before, and what
// the pool has reserved (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) is after. Where the device has no limit nothing is asked.
// Source: CUDA Driver API, "Stream Ordered Memory Allocator".
//
// Any thread; driver calls are made under a lock, none of which waits for GPU work.
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

  // The result of `allocate`, which writes the address of `bytes` out of `pool` (null: that of the device `current`).
  // CUDA_ERROR_OUT_OF_MEMORY where the session may not hold what the pool would have to reserve; an allocation that made the
  // pool grow too far is given back in `stream`'s order.
  CUresult Allocate(CUdevice current, CUmemoryPool pool, uint64_t bytes, CUstream stream, CUdeviceptr* address,
                    const std::function<CUresult()>& allocate) EXCLUDES(mutex_);
  // A pointer out of a pool of another process, whose `bytes` count for this one as well. False: the session may not hold them.
  bool Imported(CUdeviceptr address, uint64_t bytes) EXCLUDES(mutex_);
  // A new pool of memory on `device`.
  void Made(CUmemoryPool pool, CUdevice device) EXCLUDES(mutex_);
  // An allocation that is being freed; it holds its part of a destroyed pool until EndFree(). The address may be another's by
  // then, since pools hand out again what a stream frees.
  using Freeing = std::shared_ptr<void>;
  // Null: it is not one whose end has to be told.
  Freeing BeginFree(CUdeviceptr address) EXCLUDES(mutex_);
  // All work that was enqueued before the free is done.
  void EndFree(Freeing freeing);
  // The driver has refused the free.
  void UndoFree(CUdeviceptr address, Freeing freeing) EXCLUDES(mutex_);
  // The pool is destroyed. The driver keeps what is allocated in it until that is freed.
  void Destroyed(CUmemoryPool pool) EXCLUDES(mutex_);
  // Counts what the pools of `device` have reserved by now.
  void Measure(CUdevice device) EXCLUDES(mutex_);
  // Has them give back what they do not use, as the driver does where an allocation fails. Whether any did. Waits up to kEndsNs
  // for frees of which another thread is about to tell.
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

  // The device of a pool that this has not seen yet: it is some device's own. -1: it is none's.
  CUdevice DeviceOf(CUmemoryPool pool) const;
  Shared Find(CUmemoryPool pool) REQUIRES(mutex_);
  uint64_t Attribute(CUmemoryPool pool, CUmemPool_attribute attribute) const;
  // Counts what it has reserved by now.
  void MeasureOne(CUmemoryPool handle, Pool& pool) const;
  // What `bytes` more may make the pool reserve, as far as is known before.
  uint64_t GrowthFor(CUmemoryPool pool, uint64_t bytes) const;
  bool TrimAll(CUdevice device) REQUIRES(mutex_);

  const DriverTable& driver_;
  MemoryLedger& ledger_;
  std::atomic<bool> any_{false};     // live_ had one
  std::atomic<uint32_t> ending_{0};  // frees that have begun
  std::atomic<bool> ended_{false};   // one has, since Trim() looked
  Mutex mutex_;
  std::map<CUmemoryPool, Shared> pools_ GUARDED_BY(mutex_);
  std::map<CUdeviceptr, Shared> live_ GUARDED_BY(mutex_);  // allocations: a destroyed pool lives as long as they do
};

}  // namespace tessera
