// Physical memory that the program itself makes or imports (cuMemCreate), counted in the session's ledger.
//
// The memory is held until its last handle is released, its last mapping is removed, and every descriptor that it was exported
// as is closed (Sharing keeps what Of() returns for as long as there is one). The driver frees it only then, not already with
// cuMemRelease. Source: CUDA Driver API, "Virtual Memory Management", cuMemRelease, cuMemExportToShareableHandle.
//
// Handles are the client's, not the driver's. The driver uses the number of a handle that was released again at once, and
// helper threads make handles while the executor releases others. Any thread. Call each function after the driver has done its
// part.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"
#include "protocol/wire/handle.h"
#include "server/worker/memory/held_memory.h"

namespace tessera {

class PhysicalMemory {
 public:
  // Memory with its place in the ledger, which is given back with the last copy.
  using Shared = std::shared_ptr<HeldMemory>;

  // Notes a handle of new memory. The ledger has counted its bytes.
  void Made(HandleId handle, HeldMemory memory) EXCLUDES(mutex_) {
    Made(handle, std::make_shared<HeldMemory>(std::move(memory)));
  }
  // The same of memory that has been counted with other handles of it.
  void Made(HandleId handle, Shared memory) EXCLUDES(mutex_);
  // Notes that the handle was released.
  void Released(HandleId handle) EXCLUDES(mutex_);
  // The handle names something else now, and was not released: its memory is held until the session ends.
  void Lost(HandleId handle) EXCLUDES(mutex_);
  // Notes one more handle, of the memory that is mapped at `address`.
  void Retained(HandleId handle, uint64_t address) EXCLUDES(mutex_);
  // Notes that the handle's memory was mapped at `range`, and that all mappings which lie in `range` were removed.
  void Mapped(const Range& range, HandleId handle) EXCLUDES(mutex_);
  void Unmapped(const Range& range) EXCLUDES(mutex_);
  // Notes that the memory is mapped to parts of a sparse array. These parts are not tracked, so the memory is held until the
  // session ends.
  void MappedInArray(HandleId handle) EXCLUDES(mutex_);
  // Returns the handle's memory; null: the handle is not known.
  Shared Of(HandleId handle) EXCLUDES(mutex_);

 private:
  struct Mapping {
    uint64_t bytes;
    Shared memory;
  };

  Mutex mutex_;
  std::map<HandleId, Shared> handles_ GUARDED_BY(mutex_);
  std::map<uint64_t, Mapping> mappings_ GUARDED_BY(mutex_);  // by address
  std::map<const HeldMemory*, Shared> in_arrays_ GUARDED_BY(mutex_);
  std::vector<Shared> lost_ GUARDED_BY(mutex_);
};

}  // namespace tessera
