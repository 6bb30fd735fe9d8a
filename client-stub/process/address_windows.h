// The parts of this process' address space that belong to device memory and pinned host memory.
//
// CUDA guarantees that no device pointer equals a host address of the process. Device memory lives on a server that does
// not know what this process maps, so the process keeps two windows (protocol/memory/window_table.h) free of mappings:
// reserved PROT_NONE, which costs no memory. Addresses only the driver can choose (pools, module globals, graph memory) lie
// outside the windows; the range is reserved here after the driver has named it.
// One object per process; any thread. A forked child keeps the reservations and uses none of them.
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

  // Reserves every row of kWindowTable that is free in this process, kSanitizedRow only if no other one is, and returns them
  // as a mask (bit i: row i); after
  // Keep(), the bit of the row kept. 0: none is free (another library maps there, or RLIMIT_AS is set).
  uint32_t Offer() EXCLUDES(mutex_);
  // The row the server chose: the others are given back. Failed when `row` was not offered, or another one is kept.
  Status Keep(int row) EXCLUDES(mutex_);
  // The row kept, -1 before Keep().
  int row() EXCLUDES(mutex_);

  // Makes sure that nothing of this process is, or ever will be, mapped in [address, address + bytes), and that it is the
  // memory of one session alone, the one with this index: true for ranges in its device window and for ranges that were free or
  // that it has reserved already. False: something of the process is there, or memory of another server.
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
  // All of them lie between these, so that most addresses are told from them without the lock.
  std::atomic<uint64_t> driver_ranges_base_{UINT64_MAX};
  std::atomic<uint64_t> driver_ranges_end_{0};
};

}  // namespace tessera
