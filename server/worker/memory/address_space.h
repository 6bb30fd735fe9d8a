// The session's device window, reserved in the driver at exactly the agreed addresses, and the ranges given out of it.
//
// The client keeps the whole window free of its own mappings, so an address from here can never equal a host address of
// the program. The window is reserved once, in pieces as large as the driver grants: measured on driver 580, the wished-for
// address of cuMemAddressReserve is honoured for large ranges, while ranges below 64 MiB come from wherever the driver has
// a partly used block. Source: CUDA Driver API, "Virtual Memory Management".
// Not thread-safe: the owner (DeviceHeap) has the lock.
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
  // Smallest unit of address space: the mapping granularity of every device so far (2 MiB).
  static constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
  // Smaller pieces of the window are not worth a reservation of their own.
  static constexpr uint64_t kPieceBytesMin = uint64_t{1} << 30;

  explicit AddressSpace(const DriverTable& driver) : driver_(driver) {}
  ~AddressSpace();

  // The window, before the first reservation; a multiple of kGranuleBytes.
  void SetWindow(const Range& window) { window_ = window; }

  // At least `bytes` (not 0). CUDA_ERROR_OUT_OF_MEMORY: no such range is free, or the driver refused the window (said
  // once in the log).
  CUresult Reserve(uint64_t bytes, Range* out);
  // Gives back a range that Reserve returned; nothing is mapped in it any more. False when there is none at `base`.
  bool Release(uint64_t base);
  // The range given out that contains `address`.
  std::optional<Range> Find(uint64_t address) const;

 private:
  void ReservePieces(const Range& range);

  const DriverTable& driver_;
  Range window_;
  bool reserved_ = false;
  std::list<RangeAllocator> pieces_;
};

}  // namespace tessera
