// Host memory that client and worker share, made known to the driver so that DMA goes straight to and from it: the
// segments behind the client's pinned allocations, and the staging segment.
//
// A pinned segment has the same address on both sides and as a device pointer, so a host pointer means the same thing to
// the client, to the driver and to a kernel. Any thread; Attach and Detach may take long (75 ms per GiB were measured).
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

class HostSegments {
 public:
  HostSegments(Channel& channel, const DriverTable& driver) : channel_(channel), driver_(driver) {}

  // Takes the segment that the client offered at `address` and registers it in the current context, which is `context`.
  // CUDA_ERROR_OUT_OF_MEMORY when there was no room for it; CUDA_ERROR_INVALID_VALUE when the client offered no such segment
  // there; CUDA_ERROR_NOT_SUPPORTED when the driver would give its device pointer another value; otherwise the driver's own
  // verdict.
  CUresult Attach(uint64_t context, uint32_t segment, const Range& range) EXCLUDES(mutex_);
  // Undoes Attach: no work uses the segment any more. CUDA_ERROR_INVALID_VALUE for an unknown one.
  CUresult Detach(uint32_t segment) EXCLUDES(mutex_);
  // The context goes: what was registered in it is unregistered. It must be current.
  void EndContext(uint64_t context) EXCLUDES(mutex_);

  // True when all of [address, address + bytes) lies in one attached segment; `segment` and `offset` (may be null) say
  // where.
  bool Contains(uint64_t address, uint64_t bytes, uint32_t* segment = nullptr, uint64_t* offset = nullptr) EXCLUDES(mutex_);

  // `bytes` from `offset` of the staging segment, which is registered on first use, in the current context `context`.
  // Empty with a null data() outside the segment. A driver that cannot register it copies from ordinary memory (slower).
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
