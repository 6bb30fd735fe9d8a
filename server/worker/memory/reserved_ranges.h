// The addresses that the client has reserved for the application (cuMemAddressReserve), reserved in the driver at the same place.
// The client picks and holds them (client-stub/memory/address_reservations.h). The application maps memory nowhere else. Any
// thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>

#include "protocol/base/mutex.h"
#include "protocol/memory/window_table.h"

namespace tessera {

struct DriverTable;  // generated/driver_table.h

class ReservedRanges {
 public:
  // `windows`: the session's; Reserve() takes nothing in them. `client_in_process`: the client holds the addresses in this very
  // process, so they are given up before the driver takes them.
  ReservedRanges(const DriverTable& driver, const WindowPair& windows, bool client_in_process)
      : driver_(driver), windows_(windows), client_in_process_(client_in_process) {}
  // Gives back to the driver the ranges in which nothing is mapped any more. The rest goes with the process.
  ~ReservedRanges();

  // Reserves exactly this range. `*reserved` is false, without an error, when this process or its driver has something there.
  // Otherwise returns the driver's result. CUDA_ERROR_INVALID_VALUE: `range` is empty or leaves the address space.
  // CUDA_ERROR_NOT_SUPPORTED: the driver has no cuMemAddressReserve.
  CUresult Reserve(const Range& range, bool* reserved) EXCLUDES(mutex_);
  // Gives back a whole range. CUDA_ERROR_INVALID_VALUE: `range` is none. Otherwise the driver's result; after an error the range
  // stays.
  CUresult Release(const Range& range) EXCLUDES(mutex_);
  // Takes over a range of the device window that the heap has handed out. False: such ranges would take more than half of the
  // window, and this one was not taken. The other half is for the heap.
  bool AddInWindow(const Range& range) EXCLUDES(mutex_);
  // Ends such a range, so that the heap can have it back. False: `range` is none.
  bool RemoveInWindow(const Range& range) EXCLUDES(mutex_);
  // True: all of [address, address + bytes) is reserved, in one range or in several without a gap.
  bool Contains(uint64_t address, uint64_t bytes) EXCLUDES(mutex_);

 private:
  const DriverTable& driver_;
  const WindowPair windows_;
  const bool client_in_process_;
  Mutex mutex_;
  std::map<uint64_t, uint64_t> ranges_ GUARDED_BY(mutex_);  // base, bytes
  uint64_t in_window_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera
