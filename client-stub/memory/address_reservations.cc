#include "client-stub/memory/address_reservations.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <mutex>
#include <tuple>

#include "client-stub/session/basic_call.h"
#include "client-stub/session/session.h"
#include "generated/client/virtual_memory.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// User addresses end here, for drivers too (x86-64; those of arm64 go on).
constexpr uint64_t kUserEnd = (uint64_t{1} << 47) - 4096;
// Beyond this an alignment is no more one that only cannot be had.
constexpr uint64_t kAlignmentMax = uint64_t{1} << 61;
// Places that one reservation is tried at: each is a round trip.
constexpr int kPlacesMax = 64;
// The furthest that one of them is from the one before it, of the 85 TiB that there are.
constexpr uint64_t kStepMax = uint64_t{8} << 40;

uint64_t WholeBlocks(uint64_t bytes) {
  return (bytes + AddressReservations::kBlockBytes - 1) & ~(AddressReservations::kBlockBytes - 1);
}

// As the driver: whole granules, alignments that are powers of two, a wish that fits both.
CUresult Check(uint64_t bytes, uint64_t alignment, uint64_t wish) {
  constexpr uint64_t kGranule = AddressReservations::kGranuleBytes;
  const bool valid = bytes != 0 && bytes % kGranule == 0 && (alignment == 0 || std::has_single_bit(alignment)) &&
                     alignment <= kAlignmentMax && wish % kGranule == 0 && (alignment == 0 || wish % alignment == 0);
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  const bool exists = bytes <= kUserEnd && alignment < kUserEnd && wish <= kUserEnd - bytes;
  return exists ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

template <typename SomeBlocks>
auto* AddressReservations::BlockAt(SomeBlocks& blocks, uint64_t address) {
  const auto after = blocks.upper_bound(address);
  decltype(&after->second) ranges = nullptr;
  if (after != blocks.begin() && std::prev(after)->second.Contains(address)) ranges = &std::prev(after)->second;
  return ranges;
}

CUresult AddressReservations::Reserve(BasicCall& call, uint64_t bytes, uint64_t alignment, uint64_t wish, uint64_t* address) {
  if (const CUresult result = Check(bytes, alignment, wish); result != CUDA_SUCCESS) return call.Fail(result);
  MutexLock lock(changes_);
  std::optional<Range> range;
  if (wish != 0) range = AtWish(call, bytes, wish);
  if (!range && call.ok()) range = Anywhere(call, bytes, std::max<uint64_t>(alignment, 1));
  if (!range) return call.ok() ? call.Fail(CUDA_ERROR_OUT_OF_MEMORY) : call.result();
  count_.fetch_add(1, std::memory_order_release);
  *address = range->base;
  return CUDA_SUCCESS;
}

// At this address; a block that has to be made for it begins at the next multiple of a block's size.
std::optional<Range> AddressReservations::AtWish(BasicCall& call, uint64_t bytes, uint64_t wish) {
  {
    const std::unique_lock table(table_);
    if (RangeAllocator* const ranges = BlockAt(blocks_, wish)) return ranges->AllocateAt(wish, bytes);
  }
  const Range block{WholeBlocks(wish), std::max(WholeBlocks(bytes), least_bytes_)};
  if (!held_.HoldAt(block) || (!MakeBlock(call, block) && !MakeLargeBlock(call, block))) return std::nullopt;
  const std::unique_lock table(table_);
  return BlockAt(blocks_, block.base)->AllocateAt(block.base, bytes);
}

std::optional<Range> AddressReservations::Anywhere(BasicCall& call, uint64_t bytes, uint64_t alignment) {
  if (bytes < kBlockBytes) {
    const std::unique_lock table(table_);
    for (auto& [base, ranges] : blocks_) {
      if (ranges.largest_free() < bytes) continue;
      if (const auto range = ranges.Allocate(bytes, alignment)) return range;
    }
  }
  const uint64_t block_bytes = std::max(WholeBlocks(bytes), least_bytes_);
  uint64_t step = WholeBlocks(block_bytes / 8);
  // A driver that granted no place in many tries is asked for one place only from then on.
  const int places_max = in_window_.empty() ? kPlacesMax : 1;
  for (int places = 0; places < places_max; ++places) {
    const auto block = held_.Hold(block_bytes, std::max(alignment, kBlockBytes), refused_);
    if (!block) break;
    if (MakeBlock(call, *block) || MakeLargeBlock(call, *block)) {
      const std::unique_lock table(table_);
      return BlockAt(blocks_, block->base)->AllocateAt(block->base, bytes);
    }
    if (!call.ok()) return std::nullopt;
    // How much is taken there is not known: the next place begins a little further on, then ever further.
    refused_.push_back({block->base, step});
    step = std::min(2 * step, kStepMax);
  }
  refused_.clear();  // what was in the way on the server may be gone when the program asks again
  return any_granted_ ? std::nullopt : InWindow(call, bytes, alignment);
}

std::optional<Range> AddressReservations::InWindow(BasicCall& call, uint64_t bytes, uint64_t alignment) {
  // The server aligns nothing beyond a granule: a larger block has an aligned part.
  const uint64_t block_bytes = WholeBlocks(bytes) + (alignment > kGranuleBytes ? alignment : 0);
  cuMemAddressReserveRequest request;
  request.bytes = block_bytes;
  cuMemAddressReserveReply reply;
  if (block_bytes < bytes || call.Sync(request, &reply) != CUDA_SUCCESS || !reply.reserved) return std::nullopt;
  const std::unique_lock table(table_);
  const auto [block, added] =
      blocks_.emplace(std::piecewise_construct, std::tuple(reply.base), std::tuple(reply.base, block_bytes, kGranuleBytes));
  in_window_.insert(reply.base);
  return block->second.Allocate(bytes, std::max(alignment, kGranuleBytes));
}

// Has the server reserve the block, which is held. False: it did not, and the block is held no more; `call` says
// whether its driver failed or only cannot have this place.
bool AddressReservations::MakeBlock(BasicCall& call, const Range& block) {
  cuMemAddressReserveRequest request;
  request.base = block.base;
  request.bytes = block.bytes;
  cuMemAddressReserveReply reply;
  if (call.Sync(request, &reply) != CUDA_SUCCESS || !reply.reserved) {
    if (call.ok()) LogInfo("the server cannot reserve {} bytes at {:#x}: another place is tried", block.bytes, block.base);
    held_.Release(block);
    return false;
  }
  any_granted_ = true;
  const std::unique_lock table(table_);
  blocks_.emplace(std::piecewise_construct, std::tuple(block.base), std::tuple(block.base, block.bytes, kGranuleBytes));
  return true;
}

// A place that is not granted to a block may be granted to a large one. Blocks are large from then on.
bool AddressReservations::MakeLargeBlock(BasicCall& call, const Range& refused) {
  const Range block{refused.base, kLargeBlockBytes};
  if (!call.ok() || least_bytes_ == kLargeBlockBytes || refused.bytes >= block.bytes) return false;
  if (!held_.HoldAt(block) || !MakeBlock(call, block)) return false;
  least_bytes_ = kLargeBlockBytes;
  return true;
}

CUresult AddressReservations::Free(BasicCall& call, const Range& range) {
  MutexLock lock(changes_);
  if (Find(range.base) != range) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Range block;
  {
    const std::unique_lock table(table_);
    RangeAllocator& ranges = *BlockAt(blocks_, range.base);
    if (ranges.used_count() > 1) {
      ranges.Free(range.base);
      count_.fetch_sub(1, std::memory_order_relaxed);
      return CUDA_SUCCESS;
    }
    block = ranges.whole();
  }
  // The server first: until it has given the addresses back nothing else may come to lie there.
  cuMemAddressFreeRequest request;
  request.ptr = block.base;
  request.size = block.bytes;
  if (const CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
  {
    const std::unique_lock table(table_);
    blocks_.erase(block.base);
  }
  count_.fetch_sub(1, std::memory_order_relaxed);
  if (in_window_.erase(block.base) == 0) held_.Release(block);
  return CUDA_SUCCESS;
}

uint64_t AddressReservations::ReservedFrom(uint64_t address, uint64_t bytes) const {
  uint64_t counted = 0;
  while (counted < bytes) {
    const auto reservation = Find(address + counted);
    if (!reservation) break;
    counted += std::min(bytes - counted, reservation->end() - (address + counted));
  }
  return counted;
}

std::optional<Range> AddressReservations::Find(uint64_t address) const {
  const std::shared_lock table(table_);
  const RangeAllocator* const ranges = BlockAt(blocks_, address);
  return ranges == nullptr ? std::nullopt : ranges->Find(address);
}

}  // namespace tessera
