// Physical device memory in mapped chunks, the level below the heap: created, mapped into the device window, cached when
// free, released when the device runs short.
//
// A chunk is one address range with one physical allocation behind it, accessible from its own device and from every
// device that was allowed to reach it. Physical memory is created exportable where the device can: that cannot be added
// later. Source: CUDA Driver API, "Virtual Memory Management".
// Not thread-safe: the owner (DeviceHeap) has the lock.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "server/worker/memory/address_space.h"
#include "server/worker/memory/memory_ledger.h"

namespace tessera {

struct Chunk {
  Range range;
  CUmemGenericAllocationHandle physical = 0;
  CUdevice device = 0;
};

class DeviceChunks {
 public:
  // Free memory kept mapped per device, so that an allocate-and-free pair costs no driver call. It counts as free.
  static constexpr uint64_t kCachedBytesMax = uint64_t{1} << 30;

  // All three outlive it. What is cached is held, too.
  DeviceChunks(const DriverTable& driver, AddressSpace& space, MemoryLedger& ledger)
      : driver_(driver), space_(space), ledger_(ledger) {}
  // Releases what is cached; chunks in use are the owner's.
  ~DeviceChunks();

  // A chunk of exactly `bytes` rounded up to the device's granularity, from the cache or new. When the device is out of
  // memory, or the session's part of it, everything cached on it is released and the driver asked once more.
  CUresult Acquire(CUdevice device, uint64_t bytes, Chunk* out);
  // Takes a chunk back: cached while the bound allows it, else released. No work may use it any more.
  void Return(const Chunk& chunk);
  // Unmaps and releases a chunk at once.
  void Destroy(const Chunk& chunk);
  // Releases everything cached on `device`; the bytes that became free.
  uint64_t ReleaseCached(CUdevice device);
  uint64_t CachedBytes(CUdevice device) const;

  // `accessor` may (or may no longer) reach memory of `device`: concerns the chunks given and those cached and made later.
  CUresult SetAccess(CUdevice device, CUdevice accessor, bool allow, const std::map<uint64_t, Chunk>& in_use);

 private:
  struct Device {
    bool known = false;
    CUresult usable = CUDA_SUCCESS;  // why the device cannot serve chunks
    uint64_t granularity = 0;
    CUmemAllocationProp properties{};
    std::set<CUdevice> accessors;  // besides itself
    std::deque<Chunk> cached;      // oldest first
    uint64_t cached_bytes = 0;
  };
  Device& Of(CUdevice device);
  CUresult Create(Device& state, CUdevice device, uint64_t bytes, Chunk* out);
  CUresult CreateUncharged(Device& state, CUdevice device, uint64_t bytes, Chunk* out);
  CUresult AllowAll(const Device& state, CUdevice device, const Range& range);

  const DriverTable& driver_;
  AddressSpace& space_;
  MemoryLedger& ledger_;
  std::map<CUdevice, Device> devices_;
};

}  // namespace tessera
