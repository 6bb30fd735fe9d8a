// Pinned host memory of this process: what cuMemHostAlloc hands out, and what cuMemHostRegister was told about.
//
// Allocations lie in segments that are mapped at the same address here and in the worker, in the session's host window. Large
// ones have a segment of their own. Small ones share slabs, which stay until their context ends (natively a context's memory goes
// with it). Memory may be freed while the server cannot tell whether work still uses it, since a stream captures. Then a block of
// a slab is kept until a later free, and a segment until its context ends. Over a mirrored channel there are no shared pages.
// There an allocation is private memory of this process, at an address of the window that both sides keep free. Registered memory
// stays the application's and is never replaced. Private memory is copied through other memory (copy_in_order.h, host_mirrors.h).
// A shared mapping of a file is mapped again in the window of both sides. This alias is the same memory, and the driver can use
// it. Any thread. No lock is held while the server is asked.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <shared_mutex>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/channel/segment.h"
#include "protocol/memory/range_allocator.h"
#include "protocol/wire/handle.h"

namespace tessera {

class Channel;

struct HostBlock {
  Range range;
  unsigned flags = 0;  // as cuMemHostGetFlags reports them
  CUdevice device = 0;
  HandleId context;
  uint64_t buffer_id = 0;
  // Not null: the block is of this pool (host_pools.h), and of no context.
  HandleId pool;
  Range mapping;              // the pool's memory around it; empty: whole pages
  unsigned handle_types = 0;  // CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES
  bool registered = false;    // by cuMemHostRegister, not allocated
  bool shared = false;        // the server's driver reaches the memory or its alias
  bool sync_memops = false;   // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as set
  // It is physical memory on the host, mapped in reserved addresses (host_allocations.h), and of no context.
  bool mapped = false;
  CUmemAccess_flags host_access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;  // the program's own
  CUmemAccess_flags device_access = CU_MEM_ACCESS_FLAGS_PROT_NONE;     // of a mapping: what some device has
  // Of a registered shared file: the address of the same bytes for the server's driver, and their segment.
  uint64_t alias = 0;
  uint32_t segment = 0;
};

class HostMemory {
 public:
  static constexpr uint64_t kSlabBytes = uint64_t{4} << 20;
  static constexpr uint64_t kSlabBlockBytesMax = uint64_t{256} << 10;
  // Blocks of a slab start at multiples of this: a cache line pair, so neighbours do not share lines with DMA.
  static constexpr uint64_t kAlignmentBytes = 512;
  // The most shared host memory of one session. It bounds addresses and pinning; nothing is reserved.
  static constexpr uint64_t kBytesMax = uint64_t{1} << 40;

  HostMemory(Channel& channel, const Range& window);

  // Memory for an allocation, before the server knows of it; Commit() or Abandon() follows. `segment`: a new segment, which the
  // server has to attach; 0: none. `shared`: the server's driver reaches it.
  struct Placed {
    Range block;
    Range segment_range;
    uint32_t segment = 0;
    bool shared = true;
  };
  // CUDA_ERROR_OUT_OF_MEMORY when window, bound or system have no room.
  CUresult Place(HandleId context, uint64_t bytes, Placed* placed) EXCLUDES(mutex_);
  // As above for memory that only this process has, in pages of its own.
  CUresult PlacePrivate(HandleId context, uint64_t bytes, Placed* placed) EXCLUDES(mutex_);
  // Addresses without memory here, until EndFree() or the end of the context.
  CUresult PlaceAddresses(HandleId context, uint64_t bytes, uint64_t* address) EXCLUDES(mutex_);
  // The allocation is live. `bytes` is what was asked for.
  void Commit(const Placed& placed, uint64_t bytes, unsigned flags, CUdevice device, HandleId context) EXCLUDES(mutex_);
  // As above for memory of the library's own, which the application does not see.
  void CommitUnseen(const Placed& placed) EXCLUDES(mutex_);
  // Show(): a block of a pool, in committed memory, is live. The other ends it; false: no block of a pool starts there.
  void Show(HostBlock block);
  bool Hide(uint64_t address);
  // Enters a mapping in reserved addresses, or its changed access; and removes it.
  void ShowMapping(HostBlock block);
  void HideMapping(uint64_t base);
  // Forgets everything about a segment that the server has refused or let go.
  void Abandon(const Placed& placed) EXCLUDES(mutex_);

  // First half of a free: the block is live no more, but its memory stays. `segment`: the segment that ends with it; 0: others
  // use it too. CUDA_ERROR_INVALID_VALUE: no allocation starts at `address`.
  CUresult BeginFree(uint64_t address, uint32_t* segment) EXCLUDES(mutex_);
  // Second half, after the server has answered. `idle`: all work is done; false: the server cannot tell.
  void EndFree(uint64_t address, bool idle) EXCLUDES(mutex_);

  // Maps a shared file of the application's in the window, for an alias. Commit() or Abandon() follows, as for Place().
  CUresult PlaceFile(HandleId context, int fd, uint64_t file_offset, uint64_t bytes, Placed* placed) EXCLUDES(mutex_);
  // The registration that starts at `address` has this alias.
  void SetAlias(uint64_t address, uint64_t alias, uint32_t segment);

  // 712: part of the range is registered already. 1: part of it is allocated. (Measured: driver 580.)
  CUresult Register(const Range& range, unsigned flags, CUdevice device, HandleId context) EXCLUDES(mutex_);
  // 713 when no registration starts at `address`.
  CUresult Unregister(uint64_t address) EXCLUDES(mutex_);

  // False: no live block contains `address`.
  bool SetSyncMemops(uint64_t address, bool value);
  // The live block (allocated or registered) that contains `address`. An address in an alias belongs to the registration.
  std::optional<HostBlock> Find(uint64_t address) const;
  // The address of the same byte in the alias (0: there is none), or in the application's own mapping (0: it is in no alias).
  uint64_t AliasOf(uint64_t address) const;
  uint64_t OriginalOf(uint64_t alias) const;
  bool InWindow(uint64_t address) const { return window_.contains(address); }
  const Range& window() const { return window_; }
  // Whether there are blocks outside the window, registered or mapped.
  bool any_outside() const { return outside_count_.load(std::memory_order_relaxed) != 0; }
  // The segment and offset of a range of a live allocation, for Channel::Publish().
  bool Locate(uint64_t address, uint64_t bytes, uint32_t* segment, uint64_t* offset) const EXCLUDES(mutex_);

  // The context has ended, and with it its blocks, slabs and segments.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  struct Segment {
    uint32_t id = 0;  // 0: private memory, or addresses alone
    Range range;
    HandleId context;
    Mapping memory;                          // of private memory
    std::unique_ptr<RangeAllocator> blocks;  // of a slab; null for a segment of one allocation
    bool attached = false;                   // the server knows it: others may place blocks in it
  };
  using Segments = std::map<uint64_t, Segment>;  // by base

  // A range of the window for so many bytes, within the bound.
  std::optional<Range> MakeRange(uint64_t bytes) REQUIRES(mutex_);
  Segment* MakeSegment(HandleId context, uint64_t bytes, int fd = -1, uint64_t file_offset = 0) REQUIRES(mutex_);
  void DropSegment(uint64_t base) REQUIRES(mutex_);
  Segment* SegmentOf(uint64_t address) REQUIRES(mutex_);
  void Reclaim(uint64_t block) REQUIRES(mutex_);

  Channel& channel_;
  const Range window_;
  mutable Mutex mutex_;
  RangeAllocator addresses_ GUARDED_BY(mutex_);
  Segments segments_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> postponed_ GUARDED_BY(mutex_);  // blocks of slabs that wait until a later free finds nothing running

  mutable std::shared_mutex blocks_mutex_;  // taken after mutex_
  std::map<uint64_t, HostBlock> blocks_;    // live, by base; guarded by blocks_mutex_
  std::map<uint64_t, uint64_t> aliases_;    // alias -> base of its registration; guarded by blocks_mutex_
  std::atomic<size_t> outside_count_{0};
  std::atomic<size_t> alias_count_{0};
};

}  // namespace tessera
