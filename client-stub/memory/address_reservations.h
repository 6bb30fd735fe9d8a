// The address ranges that the program has reserved in one session (cuMemAddressReserve), on both sides: held in this
// process (held_addresses.h) and reserved in the server's driver at the same addresses.
//
//   CUresult Custom_cuMemAddressReserve(...) { ... memory.reservations().Reserve(call, size, alignment, addr, ptr) ...
//   }
//
// Both sides reserve blocks of whole kBlockBytes. A reservation of that size or more has a block of its own; smaller ones share
// blocks. The server knows only blocks. If its driver does not reserve the picked place another one is tried. Rules and codes
// were measured on driver 580 (H200). Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <shared_mutex>
#include <vector>

#include "client-stub/memory/held_addresses.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class BasicCall;

class AddressReservations {
 public:
  // Sizes and wished addresses are multiples of this on every device so far.
  static constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
  // Reservations of this size get exactly the wished address. The driver rounds other sizes up, and takes smaller reservations
  // out of blocks that it has in use. Driver 580 needs the first with one H200, and more with two.
  static constexpr uint64_t kBlockBytes = uint64_t{32} << 20;
  static constexpr uint64_t kLargeBlockBytes = uint64_t{1} << 30;

  explicit AddressReservations(HeldAddresses& held) : held_(held) {}

  // Reserves `bytes` at a multiple of `alignment` (0: any), at `wish` if that is free (0: no wish), else elsewhere.
  // CUDA_ERROR_INVALID_VALUE as natively; CUDA_ERROR_OUT_OF_MEMORY: no place is free on both sides, or RLIMIT_AS is reached. Or
  // what the server's driver says.
  CUresult Reserve(BasicCall& call, uint64_t bytes, uint64_t alignment, uint64_t wish, uint64_t* address) EXCLUDES(changes_);
  // Gives back exactly one reservation, in which nothing is mapped. CUDA_ERROR_INVALID_VALUE: `range` is none; or what
  // the server's driver says, and the reservation stays.
  CUresult Free(BasicCall& call, const Range& range) EXCLUDES(changes_);

  bool Contains(uint64_t address) const { return count_.load(std::memory_order_acquire) != 0 && Find(address).has_value(); }
  // How many of the `bytes` from `address` on are reserved without a gap, in one reservation or in several that follow each
  // other.
  uint64_t ReservedFrom(uint64_t address, uint64_t bytes) const;
  bool Covers(const Range& range) const { return Contains(range.base) && ReservedFrom(range.base, range.bytes) == range.bytes; }
  // The reservation that contains `address`.
  std::optional<Range> Find(uint64_t address) const;

 private:
  using Blocks = std::map<uint64_t, RangeAllocator>;  // by base
  // The block that contains `address`, or null.
  template <typename SomeBlocks>
  static auto* BlockAt(SomeBlocks& blocks, uint64_t address);

  std::optional<Range> AtWish(BasicCall& call, uint64_t bytes, uint64_t wish) REQUIRES(changes_);
  std::optional<Range> Anywhere(BasicCall& call, uint64_t bytes, uint64_t alignment) REQUIRES(changes_);
  // A block in the session's device window that the server picks, for drivers that grant no place outside of it. Blocks take half
  // of the window at most.
  std::optional<Range> InWindow(BasicCall& call, uint64_t bytes, uint64_t alignment) REQUIRES(changes_);
  bool MakeBlock(BasicCall& call, const Range& block) REQUIRES(changes_);
  bool MakeLargeBlock(BasicCall& call, const Range& refused) REQUIRES(changes_);

  HeldAddresses& held_;
  // One thread at a time reserves or frees, and waits for the server meanwhile. Questions take table_ alone.
  Mutex changes_;
  std::vector<Range> refused_ GUARDED_BY(changes_);          // places that the server's driver did not grant
  uint64_t least_bytes_ GUARDED_BY(changes_) = kBlockBytes;  // blocks are no smaller
  bool any_granted_ GUARDED_BY(changes_) = false;            // the driver has granted a place
  std::set<uint64_t> in_window_ GUARDED_BY(changes_);        // bases of blocks in the window, which is held anyway
  mutable std::shared_mutex table_;
  Blocks blocks_;                 // changed under both, read under either
  std::atomic<size_t> count_{0};  // of reservations
};

}  // namespace tessera
