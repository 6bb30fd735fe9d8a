// Physical memory that the program itself makes or imports (cuMemCreate), counted in the session's ledger.
//
// The memory is held until its last handle is released and its last mapping is removed. The driver frees it only then, not
// already with cuMemRelease. Source: CUDA Driver API, "Virtual Memory Management", cuMemRelease.
//
// Any thread. Call each function after the driver has done its part.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>

#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"
#include "server/worker/memory/held_memory.h"

namespace tessera {

class PhysicalMemory {
 public:
  using Handle = CUmemGenericAllocationHandle;

  // Notes a handle of new memory. The ledger has counted its bytes.
  void Made(Handle handle, HeldMemory memory) EXCLUDES(mutex_);
  // Notes that one handle was released.
  void Released(Handle handle) EXCLUDES(mutex_);
  // Notes one more handle, of the memory that is mapped at `address`.
  void Retained(Handle handle, uint64_t address) EXCLUDES(mutex_);
  // Notes that the handle's memory was mapped at `range`, and that all mappings which begin in `range` were removed.
  void Mapped(const Range& range, Handle handle) EXCLUDES(mutex_);
  void Unmapped(const Range& range) EXCLUDES(mutex_);
  // Notes that the memory is mapped to parts of a sparse array. These parts are not tracked, so the memory is held until the
  // session ends.
  void MappedInArray(Handle handle) EXCLUDES(mutex_);
  // Returns the size of the handle's memory; 0: the handle is not known.
  uint64_t BytesOf(Handle handle) EXCLUDES(mutex_);

 private:
  using Shared = std::shared_ptr<HeldMemory>;
  struct Handles {
    Shared memory;
    uint64_t count = 0;
  };
  struct Mapping {
    uint64_t bytes;
    Shared memory;
  };

  Mutex mutex_;
  std::map<Handle, Handles> handles_ GUARDED_BY(mutex_);
  std::map<uint64_t, Mapping> mappings_ GUARDED_BY(mutex_);  // by address
  std::map<const HeldMemory*, Shared> in_arrays_ GUARDED_BY(mutex_);
};

}  // namespace tessera
