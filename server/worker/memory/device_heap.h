// The heap behind cuMemAlloc: blocks of device memory at addresses of the session's device window.
//
// Blocks up to kSlabBlockBytesMax are cut from slabs; a slab is one chunk and belongs to one context. A larger block is a chunk
// of its own. Chunks (device_chunks.h) are made by the driver's virtual memory management. So a block could get other physical
// memory, or move to another server, and keep its address.
// A context is named by the number of its handle. Any thread. Driver calls are made under the heap's lock; none of them waits for
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
  // Alignment of every block. cuMemAlloc promises memory "suitably aligned for any kind of variable"; 512 bytes was measured.
  static constexpr uint64_t kAlignmentBytes = 512;
  static constexpr uint64_t kSlabBytes = uint64_t{2} << 20;
  static constexpr uint64_t kSlabBlockBytesMax = uint64_t{1} << 20;

  // Both outlive it.
  DeviceHeap(const DriverTable& driver, MemoryLedger& ledger) : space_(driver), chunks_(driver, space_, ledger) {}
  ~DeviceHeap();

  // Sets the agreed window. Call this once, before anything else.
  void SetWindow(const Range& window) EXCLUDES(mutex_);

  // Allocates a block of `bytes` on `device` that belongs to `context`. CUDA_ERROR_INVALID_VALUE: `bytes` is 0.
  // CUDA_ERROR_OUT_OF_MEMORY: the device, the session's part of it or the window has no room. CUDA_ERROR_NOT_SUPPORTED: the
  // device has no virtual memory management.
  CUresult Allocate(uint64_t context, CUdevice device, uint64_t bytes, uint64_t* address) EXCLUDES(mutex_);

  // The first half of a free. From now on no block starts at `address`, so a second free fails, but the memory stays untouched
  // until EndFree. CUDA_ERROR_INVALID_VALUE: no block starts at `address`.
  CUresult BeginFree(uint64_t address) EXCLUDES(mutex_);
  // The second half of a free: all work enqueued before BeginFree is done, so the block's memory may be used again. Does nothing
  // if the block's context was freed meanwhile.
  void EndFree(uint64_t address) EXCLUDES(mutex_);

  // Frees all blocks and slabs of a context that was destroyed or reset. All its work is done.
  void FreeContext(uint64_t context) EXCLUDES(mutex_);

  // Lets `accessor` reach present and future blocks on `device`, or no longer (`allow`), as cuCtxEnablePeerAccess and
  // cuCtxDisablePeerAccess do.
  CUresult SetPeerAccess(CUdevice device, CUdevice accessor, bool allow) EXCLUDES(mutex_);

  // Returns the bytes that the driver counts as used and that the heap can give back at once.
  uint64_t CachedBytes(CUdevice device) EXCLUDES(mutex_);
  // Gives these bytes back, for an allocation that the driver makes of its own. Returns how many.
  uint64_t ReleaseCached(CUdevice device) EXCLUDES(mutex_);

  // Where a block lies in the driver's own allocations.
  struct BlockPlace {
    Range block;
    Chunk chunk;
    uint64_t context;
  };
  // Returns the place of the block that contains `address` and is not being freed. Returns nothing for any other address.
  std::optional<BlockPlace> PlaceOf(uint64_t address) EXCLUDES(mutex_);
  // Reserves a range of the window for memory that is not the heap's: another session's, or the application's own mappings.
  // Errors: AddressSpace::Reserve.
  CUresult ReserveForeign(uint64_t bytes, Range* out) EXCLUDES(mutex_);
  void ReleaseForeign(uint64_t base) EXCLUDES(mutex_);

  // True: the address lies in a chunk of the heap, used or not, or in a range of ReserveForeign.
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
  // The slabs of one context and device, by the largest block that each can still provide.
  using Slabs = std::set<std::pair<uint64_t, Slab*>>;
  using SlabsKey = std::pair<uint64_t, CUdevice>;

  CUresult AllocateSmall(uint64_t context, CUdevice device, uint64_t bytes, Range* range, Slab** slab) REQUIRES(mutex_);
  CUresult AcquireChunk(CUdevice device, uint64_t bytes, Chunk* chunk) REQUIRES(mutex_);
  void ReturnChunk(uint64_t base) REQUIRES(mutex_);
  void Drop(const Block& block) REQUIRES(mutex_);
  // Returns the slab of these that has no block in use; null: each has one.
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
