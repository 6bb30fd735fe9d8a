// Physical memory that the program makes or imports by itself (cuMemCreate), in the session's ledger.
//
// It is held until the last of its handles is released and the last of its mappings is removed: the driver frees it then, not
// with cuMemRelease. Source: CUDA Driver API, "Virtual Memory Management", cuMemRelease.
//
// Any thread. Each function is called once the driver has done its part.
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

  // There is one more handle of new memory, whose bytes the ledger has counted.
  void Made(Handle handle, HeldMemory memory) EXCLUDES(mutex_);
  void Released(Handle handle) EXCLUDES(mutex_);
  // `handle` is one of the memory that is mapped at `address`.
  void Retained(Handle handle, uint64_t address) EXCLUDES(mutex_);
  void Mapped(const Range& range, Handle handle) EXCLUDES(mutex_);
  void Unmapped(const Range& range) EXCLUDES(mutex_);
  // It is mapped to parts of a sparse array: as long as which is not followed, so it is held to the session's end.
  void MappedInArray(Handle handle) EXCLUDES(mutex_);
  // 0: not known.
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
