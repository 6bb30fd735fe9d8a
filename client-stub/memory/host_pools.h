// The pools of host memory of one session, on a channel whose two sides share pages: the server's driver has a part in them only
// in that it registers their memory, as it does that of cuMemHostAlloc. So a block has one address, for the program and for
// kernels, and every device reaches it.
//
//   HostPools& pools = call.session().memory().pools();
//   if (pools.Has(id)) return pools.Allocate(call, id, bytes, stream, address);     // else it is the server's
//
// Memory belongs to the context in which its pool grew, and ends with it. What a pool gives back the server's driver lets go of
// at the first synchronising call that finds the session without work: it would wait for what runs. Until then the pool may have
// it again. Nobody waits for that; one request is under way at a time. Any thread. No lock is held while the server is asked.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "client-stub/memory/host_memory.h"
#include "client-stub/memory/host_pool.h"
#include "client-stub/session/basic_call.h"
#include "client-stub/session/mark_table.h"
#include "client-stub/streams/stream_state.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

class HostPools {
 public:
  // Of a session: descriptors of the program are as many natively.
  static constexpr size_t kPoolsMax = 4096;

  HostPools(MarkTable& marks, HostMemory& memory) : marks_(marks), memory_(memory) {}

  bool Has(HandleId pool) const EXCLUDES(mutex_);
  // Whether a block of a pool here contains `address`.
  bool Contains(uint64_t address) const;

  // A pool of its own for `id`, which the call minted, as cuMemPoolCreate. `shareable`: by descriptors.
  CUresult Create(BasicCall& call, HandleId id, const CUmemLocation& location, uint64_t bytes_max, bool shareable)
      EXCLUDES(mutex_);
  // Another process' pool, whose file this is.
  CUresult Import(BasicCall& call, HandleId id, HostFile file) EXCLUDES(mutex_);
  // The handle is dead; the memory goes when its last block was freed. CUDA_ERROR_INVALID_VALUE for a location's own pool.
  CUresult Destroy(BasicCall& call, HandleId id) EXCLUDES(mutex_);
  // The pool that a location has, made when it is first asked for, or what SetCurrent() said (`current`).
  CUresult OfLocation(BasicCall& call, const CUmemLocation& location, bool current, HandleId* id) EXCLUDES(mutex_);
  void SetCurrent(const CUmemLocation& location, HandleId id) EXCLUDES(mutex_);

  // A pool at its bound waits so long for streams to come to their frees. Natively the driver has one stream wait for the other.
  static constexpr std::chrono::seconds kAtBoundWait{10};
  // How long a call that has seen a stream idle waits for the news of its frees.
  static constexpr std::chrono::milliseconds kNewsWait{5};

  // As cuMemAllocFromPoolAsync. CUDA_ERROR_OUT_OF_MEMORY at the pool's bound, after kAtBoundWait if frees are outstanding, and
  // when there is no memory.
  CUresult Allocate(BasicCall& call, HandleId id, uint64_t bytes, const UsedStream& stream, CUdeviceptr* address)
      EXCLUDES(mutex_);
  // As cuMemFreeAsync of a block of a pool here. CUDA_ERROR_INVALID_VALUE when none starts at `address`.
  CUresult Free(BasicCall& call, uint64_t address, const UsedStream& stream) EXCLUDES(mutex_);
  // As cuMemFree: no work uses the block any more. CUDA_ERROR_INVALID_VALUE when no block of a pool starts there.
  CUresult FreeNow(BasicCall& call, uint64_t address) EXCLUDES(mutex_);
  // Gives back what is unused until `keep` bytes are reserved.
  void Trim(BasicCall& call, HandleId id, uint64_t keep) EXCLUDES(mutex_);
  // Opens what another process has exported. CUDA_ERROR_INVALID_VALUE for a pointer of another pool, CUDA_ERROR_ALREADY_MAPPED
  // for what is open.
  CUresult OpenPointer(BasicCall& call, HandleId id, const PoolPointer& pointer, CUdeviceptr* address) EXCLUDES(mutex_);
  // Where the block at `address` lies, for another process. False: it is none of a shareable pool.
  bool Locate(uint64_t address, PoolPointer* pointer) EXCLUDES(mutex_);

  // Runs `action(HostPool&)` under the lock. False: there is no such pool.
  template <typename Action>
  bool With(HandleId id, const Action& action) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    HostPool* const pool = FindLocked(id);
    if (pool == nullptr) return false;
    pool->Settle();
    action(*pool);
    return true;
  }

  // The call has waited for work. If it is one that synchronises with a stream, an event or a context, pools keep no more than
  // their thresholds from now on.
  void AfterWait(BasicCall& call) {
    if (any_.load(std::memory_order_relaxed) && Synchronizes(call.info())) ShrinkAll(call, false);
  }
  // The same, of a call that has seen that stream idle (0: all of them): its frees count at once.
  void AfterIdle(BasicCall& call, uint64_t stream) {
    if (any_.load(std::memory_order_relaxed)) AwaitFrees(call, stream);
  }
  // The context has ended, and its memory with it.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  // Of a stream, an event or a context: where the driver's pools give memory back.
  static bool Synchronizes(const CallInfo& info);

  struct Entry {
    std::shared_ptr<HostPool> pool;
    bool destroyed = false;
  };
  // A piece on its way back.
  struct Leaving {
    std::shared_ptr<HostPool> pool;
    HostPool::Piece piece;
    bool asked = false;  // the server was asked to let go of it, by the request whose mark is asked_mark_
  };

  struct OfOneLocation {
    HandleId own;
    HandleId current;  // null: its own
  };
  // Type and id of a location; the id of memory on no node is ignored.
  using LocationKey = std::pair<int, int>;
  static LocationKey KeyOf(const CUmemLocation& location);

  CUresult Enter(BasicCall& call, HandleId id, std::shared_ptr<HostPool> pool) EXCLUDES(mutex_);
  HostPool* FindLocked(HandleId id) const REQUIRES(mutex_);
  std::shared_ptr<HostPool> PoolAt(uint64_t address) const REQUIRES(mutex_);
  // Maps a range of the pool's file, and has the server's driver register it.
  CUresult Attach(BasicCall& call, HostPool& pool, const Range& in_file, HostPool::Piece* piece);
  // `always`: even while memory is on its way back.
  void ShrinkAll(BasicCall& call, bool always) EXCLUDES(mutex_);
  void AwaitFrees(BasicCall& call, uint64_t stream) EXCLUDES(mutex_);
  void LeaveLocked(const std::shared_ptr<HostPool>& pool, std::vector<HostPool::Piece> pieces) REQUIRES(mutex_);
  // Destroyed pools without memory are gone; memory that the server has let go of is the system's.
  void CollectLocked() REQUIRES(mutex_);
  // The same; then asks the server to let go of what is leaving.
  void Sweep(BasicCall& call) EXCLUDES(mutex_);
  // Gives the pool what is leaving of it and large enough. False: there is none.
  bool ReadmitLocked(HostPool& pool, uint64_t bytes) REQUIRES(mutex_);

  MarkTable& marks_;
  HostMemory& memory_;
  mutable Mutex mutex_;
  std::map<uint64_t, Entry> pools_ GUARDED_BY(mutex_);  // by handle
  std::map<LocationKey, OfOneLocation> locations_ GUARDED_BY(mutex_);
  std::vector<Leaving> leaving_ GUARDED_BY(mutex_);
  uint64_t asked_mark_ GUARDED_BY(mutex_) = 0;  // 0: no request is under way
  std::atomic<bool> any_{false};
};

}  // namespace tessera
