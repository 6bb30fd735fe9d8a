#include "server/worker/memory/address_space.h"

#include "generated/driver_table.h"
#include "protocol/base/log.h"

namespace tessera {

AddressSpace::~AddressSpace() {
  for (const RangeAllocator& piece : pieces_) {
    // A piece with a range that is still handed out has mappings in it. The driver takes those back with the process.
    if (piece.empty()) driver_.cuMemAddressFree(piece.whole().base, piece.whole().bytes);
  }
}

// Reserves `range` as a whole. Where the driver keeps something of its own inside, it reserves the two halves instead.
void AddressSpace::ReservePieces(const Range& range) {
  CUdeviceptr address = 0;
  const CUresult result = driver_.cuMemAddressReserve(&address, range.bytes, 0, range.base, 0);
  if (result == CUDA_SUCCESS && address == range.base) {
    pieces_.emplace_back(range.base, range.bytes, kGranuleBytes);
    return;
  }
  if (result == CUDA_SUCCESS) driver_.cuMemAddressFree(address, range.bytes);
  LogDebug("driver does not reserve {} bytes at {:#x}: result {}, address {:#x}", range.bytes, range.base, int(result),
           uint64_t{address});
  const uint64_t half = range.bytes / 2 & ~(kGranuleBytes - 1);
  if (half < kPieceBytesMin) return;
  ReservePieces(Range{range.base, half});
  ReservePieces(Range{range.base + half, range.bytes - half});
}

CUresult AddressSpace::Reserve(uint64_t bytes, Range* out) {
  if (!reserved_ && window_.bytes != 0) {
    reserved_ = true;
    ReservePieces(window_);
    if (pieces_.empty()) {
      LogError("driver refuses every address of the agreed device window at {:#x}: the session has no device memory",
               window_.base);
    }
  }
  std::optional<Range> range;
  for (RangeAllocator& piece : pieces_) {
    if (!range) range = piece.Allocate(bytes);
  }
  if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = *range;
  return CUDA_SUCCESS;
}

bool AddressSpace::Release(uint64_t base) {
  for (RangeAllocator& piece : pieces_) {
    if (piece.Free(base) != 0) return true;
  }
  return false;
}

std::optional<Range> AddressSpace::Find(uint64_t address) const {
  for (const RangeAllocator& piece : pieces_) {
    if (piece.Contains(address)) return piece.Find(address);
  }
  return std::nullopt;
}

}  // namespace tessera
