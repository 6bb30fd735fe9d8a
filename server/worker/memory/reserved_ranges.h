// What the client has reserved in its address space for the application (cuMemAddressReserve), reserved in the driver
// at the same addresses. The client picks and holds them (client-stub/memory/address_reservations.h); the application maps
// memory nowhere else. Any thread.
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
  // `windows`: the session's, in which the driver reserves nothing here. `client_in_process`: it holds the addresses in
  // this very process, so they are given up before the driver takes them.
  ReservedRanges(const DriverTable& driver, const WindowPair& windows, bool client_in_process)
      : driver_(driver), windows_(windows), client_in_process_(client_in_process) {}
  // Gives the driver back where nothing is mapped any more; the rest goes with the process.
  ~ReservedRanges();

  // Reserves exactly this range. `*reserved` becomes false, without an error, when this process or its driver has
  // something there. Otherwise what the driver says.
  CUresult Reserve(const Range& range, bool* reserved) EXCLUDES(mutex_);
  // Gives back a whole range. CUDA_ERROR_INVALID_VALUE: it is none; or what the driver says, and it stays.
  CUresult Release(const Range& range) EXCLUDES(mutex_);
  // Takes over a range of the device window that the heap has given away. False: it is not taken, since half of the
  // window stays memory's.
  bool AddInWindow(const Range& range) EXCLUDES(mutex_);
  // Ends such a range, for the heap to have back. False: it is none.
  bool RemoveInWindow(const Range& range) EXCLUDES(mutex_);
  // Whether all of [address, address + bytes) is reserved, in one range or in neighbours.
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
