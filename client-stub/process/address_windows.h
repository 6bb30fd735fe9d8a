// Keeps two parts of this process' address space free, for device memory and pinned host memory.
//
// CUDA guarantees that no device pointer equals a host address of the process. Device memory lives on a server that does not know
// what this process maps. So the process reserves two windows (protocol/memory/window_table.h) as PROT_NONE, which costs no
// memory. Addresses that the driver chooses (pools, module globals, graph memory) lie outside the windows; they are reserved here
// after the driver has named them. One object per process; any thread. A forked child keeps the reservations and uses none of
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/memory/window_table.h"

namespace tessera {

class AddressWindows {
 public:
  static AddressWindows& Process() { return PartOfProcess<AddressWindows>::Get(); }
  AddressWindows() = default;

  // Reserves every row of kWindowTable that is free in this process, kSanitizedRow only if no other is free. Returns them as a
  // mask (bit i: row i); after Keep() the bit of the kept row. 0: none is free (another library maps there, or RLIMIT_AS is set).
  uint32_t Offer() EXCLUDES(mutex_);
  // Keeps the row that the server chose, and gives the others back. Fails when `row` was not offered, or another one is kept.
  Status Keep(int row) EXCLUDES(mutex_);
  // The row kept, -1 before Keep().
  int row() EXCLUDES(mutex_);

  // Reserves [address, address + bytes) for the session with this index, so that nothing of this process is ever mapped there.
  // True: the range is in the session's device window, was free, or is reserved for the session already. False: something of the
  // process is there, or memory of another server.
  bool ReserveDriverRange(uint64_t address, uint64_t bytes, uint32_t session_index = 0) EXCLUDES(mutex_);

  // Whether `address` is in a range that ReserveDriverRange has reserved, for whichever session.
  bool IsDriverRange(uint64_t address) EXCLUDES(mutex_);

  AddressWindows(const AddressWindows&) = delete;
  AddressWindows& operator=(const AddressWindows&) = delete;

 private:
  Mutex mutex_;
  bool reserved_ GUARDED_BY(mutex_) = false;
  uint32_t mask_ GUARDED_BY(mutex_) = 0;
  int row_ GUARDED_BY(mutex_) = -1;
  struct DriverRange {
    uint64_t end = 0;
    uint32_t session_index = 0;
  };
  std::map<uint64_t, DriverRange> driver_ranges_ GUARDED_BY(mutex_);  // by base, disjoint, those of a session joined
  // All ranges lie between these two, so most other addresses are recognised without the lock.
  std::atomic<uint64_t> driver_ranges_base_{UINT64_MAX};
  std::atomic<uint64_t> driver_ranges_end_{0};
};

}  // namespace tessera
