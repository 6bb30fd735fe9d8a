// What cuMemAlloc hands out: blocks of device memory at addresses of the session's device window.
//
// Blocks up to kSlabBlockBytesMax are cut from slabs of one chunk, per context; larger ones are a chunk of their own.
// Chunks (device_chunks.h) are the driver's virtual memory management, so the same block could be given another physical
// memory, or another server, behind the same address.
// A context is named by the number of its handle. Any thread. Driver calls are made under the heap's lock; they do not wait for
// GPU work.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "protocol/base/mutex.h"
#include "server/worker/memory/address_space.h"
#include "server/worker/memory/device_chunks.h"

namespace tessera {

class DeviceHeap {
 public:
  // Alignment of every block, as of cuMemAlloc ("suitably aligned for any kind of variable"; 512 bytes was measured).
  static constexpr uint64_t kAlignmentBytes = 512;
  static constexpr uint64_t kSlabBytes = uint64_t{2} << 20;
  static constexpr uint64_t kSlabBlockBytesMax = uint64_t{1} << 20;

  // Both outlive it.
  DeviceHeap(const DriverTable& driver, MemoryLedger& ledger) : space_(driver), chunks_(driver, space_, ledger) {}
  ~DeviceHeap();

  // The agreed window; once, before anything else.
  void SetWindow(const Range& window) EXCLUDES(mutex_);

  // A block of `bytes` on `device` that belongs to `context`. CUDA_ERROR_INVALID_VALUE for 0 bytes,
  // CUDA_ERROR_OUT_OF_MEMORY when device or window has no room, CUDA_ERROR_NOT_SUPPORTED without virtual memory management.
  CUresult Allocate(uint64_t context, CUdevice device, uint64_t bytes, uint64_t* address) EXCLUDES(mutex_);

  // The first half of a free: from now on the address is no block any more (a second free fails), but its memory is
  // untouched until EndFree. CUDA_ERROR_INVALID_VALUE when no block starts at `address`.
  CUresult BeginFree(uint64_t address) EXCLUDES(mutex_);
  // The memory of a block may be used again: all work enqueued before BeginFree is done.
  void EndFree(uint64_t address) EXCLUDES(mutex_);

  // The context was destroyed or its device reset: its blocks and slabs are gone. All its work is done.
  void FreeContext(uint64_t context) EXCLUDES(mutex_);

  // What cuCtxEnablePeerAccess and cuCtxDisablePeerAccess mean for memory of `device`: present and future blocks may (or
  // may no longer) be reached from `accessor`.
  CUresult SetPeerAccess(CUdevice device, CUdevice accessor, bool allow) EXCLUDES(mutex_);

  // Bytes the driver counts as used and the heap would give back at once.
  uint64_t CachedBytes(CUdevice device) EXCLUDES(mutex_);
  // Gives them back: before the driver allocates something of its own.
  uint64_t ReleaseCached(CUdevice device) EXCLUDES(mutex_);

  // Where a block lies in the driver's own allocations.
  struct BlockPlace {
    Range block;
    Chunk chunk;
    uint64_t context;
  };
  // Of the block that contains `address` and is not being freed; nothing for any other address.
  std::optional<BlockPlace> PlaceOf(uint64_t address) EXCLUDES(mutex_);
  // A range for memory of another session.
  CUresult ReserveForeign(uint64_t bytes, Range* out) EXCLUDES(mutex_);
  void ReleaseForeign(uint64_t base) EXCLUDES(mutex_);

  // True when the address lies in a chunk of the heap (used or not), or in memory of another session.
  bool OwnsAddress(uint64_t address) EXCLUDES(mutex_);

 private:
  struct Slab {
    Slab(const Chunk& chunk, uint64_t context)
        : chunk(chunk), context(context), blocks(chunk.range.base, chunk.range.bytes, kAlignmentBytes) {}
    const Chunk chunk;
    const uint64_t context;
    RangeAllocator blocks;
  };
  struct Block {
    Range range;
    uint64_t context;
    CUdevice device;
    Slab* slab;  // null: the block is a chunk of its own
    bool freeing;
  };
  // Slabs of one context and device by the largest block they can still give.
  using Slabs = std::set<std::pair<uint64_t, Slab*>>;
  using SlabsKey = std::pair<uint64_t, CUdevice>;

  CUresult AllocateSmall(uint64_t context, CUdevice device, uint64_t bytes, Range* range, Slab** slab) REQUIRES(mutex_);
  CUresult AcquireChunk(CUdevice device, uint64_t bytes, Chunk* chunk) REQUIRES(mutex_);
  void ReturnChunk(uint64_t base) REQUIRES(mutex_);
  void Drop(const Block& block) REQUIRES(mutex_);
  // The slab among these that has no block; null: each has one.
  static Slab* EmptyOf(const Slabs& slabs);

  Mutex mutex_;
  AddressSpace space_ GUARDED_BY(mutex_);
  DeviceChunks chunks_ GUARDED_BY(mutex_);
  std::map<uint64_t, Chunk> in_use_ GUARDED_BY(mutex_);  // by base
  std::map<uint64_t, Block> blocks_ GUARDED_BY(mutex_);  // by base
  std::map<Slab*, std::unique_ptr<Slab>> slabs_ GUARDED_BY(mutex_);
  std::map<SlabsKey, Slabs> open_slabs_ GUARDED_BY(mutex_);
};

}  // namespace tessera
