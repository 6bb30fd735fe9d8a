// Host memory of the program's own (cuMemCreate on the host) that is mapped in its reserved addresses: the client's memory file,
// mapped here at the same addresses and registered with the driver, so that kernels and copies use it where the program does
// (client-stub/memory/host_allocations.h).
//
// The driver forgets what was registered when the context ends in which it was. Such memory belongs to no context, so it is
// registered in another one then, or in the next that is made. Any thread; Map and Unmap may take long.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>

#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"
#include "protocol/wire/handle.h"

namespace tessera {

class ReservedRanges;
class Worker;

class HostMappings {
 public:
  HostMappings(Worker& worker, ReservedRanges& reserved) : worker_(worker), reserved_(reserved) {}

  // Maps the segment that the client offered, which may lie anywhere and is closed by this, at `range` as well.
  // CUDA_ERROR_INVALID_VALUE: it is no whole segment, or the addresses are not reserved or taken; CUDA_ERROR_OUT_OF_MEMORY: the
  // system maps no more; otherwise the driver's verdict on registering. What is current on the calling thread changes.
  CUresult Map(uint32_t segment, const Range& range) EXCLUDES(mutex_);
  // Undoes Map: the addresses are reserved as before. The driver waits for what runs. CUDA_ERROR_INVALID_VALUE: nothing was
  // mapped at `address`. What is current on the calling thread changes.
  CUresult Unmap(uint64_t address) EXCLUDES(mutex_);
  // True when all of [address, address + bytes) lies in one mapping.
  bool Contains(uint64_t address, uint64_t bytes) EXCLUDES(mutex_);

  // A context was made: what waits for one is registered. What is current on the calling thread changes.
  void BeginContext() EXCLUDES(mutex_);
  // The context goes, and is current.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  struct Mapping {
    uint64_t bytes;
    HandleId context;  // in which it is registered; null: in none
  };
  // Registers it in any context but `not_in`. Success when there is none.
  CUresult Register(const Range& range, HandleId not_in, HandleId* context);

  Worker& worker_;
  ReservedRanges& reserved_;
  Mutex mutex_;
  std::map<uint64_t, Mapping> mappings_ GUARDED_BY(mutex_);  // by base
};

}  // namespace tessera
