// The worker's half of pinned memory that kernels use over a mirrored channel: pages of this process at the address that the
// client's memory has as a device pointer, registered with the driver.
//
// Client and worker tell each other what changed (protocol/memory/change_tracker.h). What GPU work wrote is sent before the
// client is asked to run anything at a point of a stream; what the client changed comes before its answer. The client asks for
// such a point before and after every launch (client-stub/host_mirrors.h), so that is enough. Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/channel/segment.h"
#include "protocol/memory/change_tracker.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class Worker;

class HostMirrors {
 public:
  // Bytes and number of all mirrors of a session.
  static constexpr uint64_t kBytesMax = uint64_t{1} << 40;
  static constexpr size_t kMirrorsMax = 16384;

  explicit HostMirrors(Worker& worker);

  // Makes the pages of `range` (whole pages of the host window) and registers them in the current context, which is `context`.
  // Mirrors that the client had there before are closed. CUDA_ERROR_INVALID_VALUE outside of the window or where a segment
  // lies; CUDA_ERROR_OUT_OF_MEMORY beyond a bound; CUDA_ERROR_NOT_SUPPORTED when the driver would give the memory another
  // device address; otherwise the driver's own verdict.
  CUresult Open(uint64_t context, const Range& range, uint32_t generation) EXCLUDES(mutex_);
  // CUDA_ERROR_INVALID_VALUE when no mirror starts at `base`.
  CUresult Close(uint64_t base) EXCLUDES(mutex_);
  // The context goes, and what was opened in it. It must be current.
  void EndContext(uint64_t context) EXCLUDES(mutex_);

  bool Contains(uint64_t address, uint64_t bytes) EXCLUDES(mutex_);

 private:
  struct Mirror {
    Range range;
    uint64_t context = 0;
    Mapping pages;  // none when client and worker are one process: the client's own pages are there
  };
  using Mirrors = std::map<uint64_t, Mirror>;  // by base

  // What GPU work has written. May wait for room in the ring of replies. No work without mirrors.
  void SendChanges();
  CUresult Register(const Range& range);
  Mirrors::iterator Drop(Mirrors::iterator mirror) REQUIRES(mutex_);

  Worker& worker_;
  ChangeTracker changes_;
  Mutex mutex_;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  Mirrors mirrors_ GUARDED_BY(mutex_);
};

}  // namespace tessera
