// Host memory that client and worker share: the segments behind the client's pinned allocations, and the staging segment. It is
// registered with the driver, so that DMA goes straight to and from it.
//
// A pinned segment has one address: in the client, in the worker and as a device pointer. So a host pointer means the same to the
// client, to the driver and to a kernel. Any thread; Attach and Detach may take long (75 ms per GiB were measured).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class Channel;
struct DriverTable;

// How host memory is registered: for all contexts, and with addresses of the device.
inline constexpr unsigned kHostRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

class HostSegments {
 public:
  HostSegments(Channel& channel, const DriverTable& driver) : channel_(channel), driver_(driver) {}

  // Takes the segment that the client offered at `range` and registers it in the current context, which is `context`.
  // CUDA_ERROR_OUT_OF_MEMORY: there was no room for the segment. CUDA_ERROR_INVALID_VALUE: the client offered no such segment
  // there. CUDA_ERROR_NOT_SUPPORTED: the driver would give the memory another device address. Otherwise the driver's result.
  CUresult Attach(uint64_t context, uint32_t segment, const Range& range) EXCLUDES(mutex_);
  // Undoes Attach, for a segment that no work uses any more. CUDA_ERROR_INVALID_VALUE: no such segment is attached. Otherwise the
  // driver's result.
  CUresult Detach(uint32_t segment) EXCLUDES(mutex_);
  // The context is about to end, and is current: unregisters what was registered in it.
  void EndContext(uint64_t context) EXCLUDES(mutex_);

  // True: all of [address, address + bytes) lies in one attached segment. `segment` and `offset` (may be null) receive the place.
  bool Contains(uint64_t address, uint64_t bytes, uint32_t* segment = nullptr, uint64_t* offset = nullptr) EXCLUDES(mutex_);

  // Returns `bytes` from `offset` of the staging segment. Outside the segment the span is empty and its data() is null. The first
  // use registers the segment in the current context, which is `context`. If the driver cannot register it, it copies from
  // ordinary memory, which is slower.
  std::span<std::byte> Staging(uint64_t context, uint64_t offset, uint64_t bytes) EXCLUDES(mutex_);

 private:
  struct Segment {
    Range range;
    uint64_t context;
    uint32_t id;
  };

  void Close(uint32_t segment);

  Channel& channel_;
  const DriverTable& driver_;
  Mutex mutex_;
  std::map<uint64_t, Segment> segments_ GUARDED_BY(mutex_);  // by base
  bool staging_tried_ GUARDED_BY(mutex_) = false;
  uint64_t staging_context_ GUARDED_BY(mutex_) = 0;  // 0: not registered
};

}  // namespace tessera
