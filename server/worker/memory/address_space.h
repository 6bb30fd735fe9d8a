// The session's device window: reserves it in the driver at exactly the agreed addresses, and hands out ranges of it.
//
// The client keeps the whole window free of its own mappings. So an address from here never equals a host address of the program.
// The window is reserved once, in pieces as large as the driver grants. Driver 580 was measured: it honours the requested address
// of cuMemAddressReserve for large ranges. It places ranges below 64 MiB wherever it has a partly used block. Source: CUDA Driver
// API, "Virtual Memory Management".
// Not thread-safe: its owner, DeviceHeap, holds the lock.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <list>
#include <optional>

#include "protocol/memory/range_allocator.h"

namespace tessera {

struct DriverTable;  // generated/driver_table.h

class AddressSpace {
 public:
  // The smallest unit of address space: the mapping granularity of every device so far (2 MiB).
  static constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
  // A piece of the window that is smaller than this is not worth a reservation of its own.
  static constexpr uint64_t kPieceBytesMin = uint64_t{1} << 30;

  explicit AddressSpace(const DriverTable& driver) : driver_(driver) {}
  ~AddressSpace();

  // Sets the window, before the first reservation. Its size is a multiple of kGranuleBytes.
  void SetWindow(const Range& window) { window_ = window; }

  // Hands out a range of at least `bytes` (not 0). The first call reserves the window. CUDA_ERROR_OUT_OF_MEMORY: no such range is
  // free, or the driver refused the window (logged once).
  CUresult Reserve(uint64_t bytes, Range* out);
  // Takes back a range that Reserve returned; nothing may be mapped in it any more. False: no range that was handed out starts at
  // `base`.
  bool Release(uint64_t base);
  // Returns the range that was handed out and contains `address`.
  std::optional<Range> Find(uint64_t address) const;

 private:
  void ReservePieces(const Range& range);

  const DriverTable& driver_;
  Range window_;
  bool reserved_ = false;
  std::list<RangeAllocator> pieces_;
};

}  // namespace tessera
