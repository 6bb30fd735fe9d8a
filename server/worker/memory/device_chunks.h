// Physical device memory in mapped chunks, the level below the heap. Chunks are created and mapped into the device window, cached
// when they are free, and released when the device runs short.
//
// A chunk is one address range with one physical allocation behind it. Its own device can access it, and so can every device that
// was allowed to. Physical memory is created exportable where the device can do that, since this cannot be added later. Source:
// CUDA Driver API, "Virtual Memory Management".
// Not thread-safe: its owner, DeviceHeap, holds the lock.
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
  // How much free memory stays mapped per device, so that allocating and freeing again costs no driver call. It counts as free
  // for the session itself, and is missing to all others on the GPU (docs/share-a-gpu.md).
  static constexpr uint64_t kCachedBytesMax = uint64_t{64} << 20;

  // All three outlive it. The ledger counts cached chunks as held, too.
  DeviceChunks(const DriverTable& driver, AddressSpace& space, MemoryLedger& ledger)
      : driver_(driver), space_(space), ledger_(ledger) {}
  // Releases the cached chunks. Chunks in use are the owner's to release.
  ~DeviceChunks();

  // Provides a chunk of `bytes` rounded up to the device's granularity, cached or new. When the device or the session's part of
  // it is out of memory, this releases all chunks cached on it and asks the driver once more. CUDA_ERROR_NOT_SUPPORTED: the
  // device has no virtual memory management.
  CUresult Acquire(CUdevice device, uint64_t bytes, Chunk* out);
  // Takes back a chunk that no work uses any more. It is cached up to kCachedBytesMax, and else released.
  void Return(const Chunk& chunk);
  // Unmaps and releases a chunk at once.
  void Destroy(const Chunk& chunk);
  // Releases all chunks cached on `device`. Returns the bytes that became free.
  uint64_t ReleaseCached(CUdevice device);
  uint64_t CachedBytes(CUdevice device) const;

  // Lets `accessor` reach memory of `device`, or no longer (`allow`). This concerns the chunks `in_use`, the cached ones, and
  // those made later.
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
