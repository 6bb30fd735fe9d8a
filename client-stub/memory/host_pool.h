// The books of one pool of host memory (cuMemPoolCreate with a host location): what is in use, what waits for a stream, what is
// free. It makes no calls: host_pools.h gets memory for it and gives it back.
//
// The memory comes in pieces: segments that both sides map, each a range of the pool's file. The stream that freed a block may
// use it again at once. Others may use it when that stream has come to the free. If work before the free has failed nobody knows
// what still runs, so the block stays out of use until its context ends. Not thread-safe: the owner has a lock.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "client-stub/memory/host_file.h"
#include "client-stub/memory/host_memory.h"
#include "client-stub/session/mark_table.h"
#include "protocol/memory/range_allocator.h"
#include "protocol/wire/handle.h"

namespace tessera {

class HostPool {
 public:
  // Blocks begin at multiples of this, and take whole ones.
  static constexpr uint64_t kBlockBytes = 512;
  // What a pool grows by at least, unless its bound is nearer.
  static constexpr uint64_t kGrowthBytes = uint64_t{32} << 20;

  // StreamRef::key: the same for the same stream, unique in the process.
  using StreamKey = uint64_t;

  struct Piece {
    HostMemory::Placed placed;
    HandleId context;  // whose end takes the memory along
    Range in_file;
  };

  // `bytes_max`: of all pieces together. The file has twice as much room, since memory on its way back to the system keeps its
  // place. `imported`: it is another process' pool, whose allocations are opened one by one.
  HostPool(MarkTable& marks, HostFile file, const CUmemLocation& location, uint64_t bytes_max, bool shareable, bool imported);

  HostFile& file() { return file_; }
  const CUmemLocation& location() const { return location_; }
  bool shareable() const { return shareable_; }
  bool imported() const { return imported_; }

  // A block of at least `bytes` for work of `stream`. nullopt: the pool has to grow.
  std::optional<Range> Take(uint64_t bytes, StreamKey stream);
  // The range of the file by which the pool grows for a block of `bytes`. Grow() or GiveUp() follows. nullopt: the pool has its
  // largest size.
  std::optional<Range> BeginGrowth(uint64_t bytes);
  void Grow(Piece piece);
  void GiveUp(const Range& in_file);
  // Takes back a piece that Shrink() took out. False: the pool has its largest size without it.
  bool Readmit(const Piece& piece);
  // Enters a piece of an imported pool, which is all of the one allocation at `address` in it.
  void Open(Piece piece, uint64_t address, uint64_t bytes);
  // Whether the allocation that begins there in the file was opened and is in use.
  bool IsOpen(uint64_t offset) const;

  // Frees the block at `address` once `stream` has come to this point, which `mark` tells. The mark is closed here. False: no
  // block in use starts there.
  bool Free(uint64_t address, StreamKey stream, uint64_t mark);
  // Frees the block at `address`, which is in use, at once.
  void FreeNow(uint64_t address);
  // Looks which streams have come to their frees.
  void Settle();
  // Whether some stream, or `stream`, has yet to come to a free.
  bool waits() const { return !freed_.empty(); }
  bool waits_for(StreamKey stream) const { return freed_.contains(stream); }
  // Takes out pieces without a block in use until no more than `keep` bytes are reserved, or none is left.
  std::vector<Piece> Shrink(uint64_t keep);
  // The memory of a piece that was taken out is the system's again.
  void Forget(const Piece& piece);
  // The context has ended, with the memory of its pieces. Returns the blocks that were in use there.
  std::vector<uint64_t> EndContext(HandleId context);

  // The whole piece in which `address`, an address of a block in use, lies.
  Range MappingOf(uint64_t address) const { return PartOf(address)->piece.placed.block; }
  // The range of the file where the block at `address` lies; nullopt: no block in use starts there. `bytes`: as asked for.
  std::optional<Range> Locate(uint64_t address) const;
  // Whether it has no memory any more.
  bool empty() const { return pieces_.empty(); }

  // As of CUmemPool_attribute.
  int reuse[3] = {1, 1, 1};
  uint64_t threshold = 0;
  uint64_t reserved() const { return reserved_; }
  uint64_t used() const { return used_bytes_; }  // as it was asked for
  uint64_t reserved_high() const { return reserved_high_; }
  uint64_t used_high() const { return used_high_; }
  void ResetReservedHigh() { reserved_high_ = reserved_; }
  void ResetUsedHigh() { used_high_ = used_bytes_; }
  // The access of each device (CUmemAccess_flags). Devices that are not in it have none.
  std::map<CUdevice, CUmemAccess_flags> access;

 private:
  struct Part {
    Piece piece;
    RangeAllocator blocks;
  };
  using Parts = std::map<uint64_t, Part>;  // by address
  struct Used {
    uint64_t asked;
    uint64_t bytes;
  };
  struct Freed {
    Range block;
    uint64_t mark;
  };
  const Part* PartOf(uint64_t address) const;
  void Enter(Piece piece);
  void GiveBack(uint64_t address);
  Range Enter(const Range& block, uint64_t asked);

  MarkTable& marks_;
  HostFile file_;
  const CUmemLocation location_;
  const bool shareable_;
  const bool imported_;
  const uint64_t bytes_max_;
  uint64_t growing_ = 0;    // bytes between BeginGrowth() and what follows
  RangeAllocator in_file_;  // of a pool of our own: the ranges of its pieces
  Parts pieces_;
  std::map<uint64_t, Used> used_;
  std::map<StreamKey, std::deque<Freed>> freed_;  // in the order in which each stream gets there
  uint64_t reserved_ = 0, reserved_high_ = 0, used_bytes_ = 0, used_high_ = 0;
};

}  // namespace tessera
