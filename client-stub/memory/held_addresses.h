// Keeps addresses free of this process' own mappings, for what the program reserves (cuMemAddressReserve).
//
// The client picks the addresses, since only it knows what it has mapped. The server then reserves the same ones, or says that it
// cannot. Held ranges are mapped PROT_NONE, which costs no memory; as with a local driver they count as address space
// (RLIMIT_AS). They lie where neither programs nor drivers put anything by themselves, and outside the windows of window_table.h.
// So they never take the places of device memory and pinned memory. One object serves all sessions of the process, and never
// gives a held range to two. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class HeldAddresses {
 public:
  static HeldAddresses& Process() { return PartOfProcess<HeldAddresses>::Get(); }
  // Picks in the stretches that programs and drivers leave (held_addresses.cc).
  HeldAddresses();
  // Picks in these stretches, preferring the first ones. Their ends are multiples of the page size.
  explicit HeldAddresses(std::span<const Range> stretches) : stretches_(stretches.begin(), stretches.end()) {}
  // Gives everything back.
  ~HeldAddresses();

  // Holds `bytes` (not 0, a multiple of the page size) at the lowest free multiple of `alignment` (a power of two, at least the
  // page size) that touches no range of `avoid`. nullopt: no such place is free, or a limit of the process (RLIMIT_AS,
  // vm.max_map_count) is reached.
  std::optional<Range> Hold(uint64_t bytes, uint64_t alignment, std::span<const Range> avoid) EXCLUDES(mutex_);
  // Holds this range of pages, wherever it lies. False: something is mapped there, it is no range of user addresses, or
  // a limit is reached.
  bool HoldAt(const Range& range) EXCLUDES(mutex_);
  // Gives back a whole range that was held.
  void Release(const Range& range) EXCLUDES(mutex_);

 private:
  std::optional<Range> FirstFree(uint64_t bytes, uint64_t alignment, std::span<const Range> avoid) const REQUIRES(mutex_);
  bool Take(const Range& range) REQUIRES(mutex_);
  void LookAround() REQUIRES(mutex_);

  const std::vector<Range> stretches_;
  Mutex mutex_;
  std::map<uint64_t, uint64_t> held_ GUARDED_BY(mutex_);  // base, bytes
  // Mappings of others in the stretches, as they were when LookAround was called last.
  std::vector<Range> foreign_ GUARDED_BY(mutex_);
};

}  // namespace tessera
