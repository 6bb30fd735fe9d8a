// The program's own host memory (cuMemCreate on the host), mapped in its reserved addresses. The worker maps the client's memory
// file at the same addresses and registers it with the driver. So kernels and copies use this memory where the program does
// (client-stub/memory/host_allocations.h).
//
// When a context ends, the driver forgets what was registered in it. Such memory belongs to no context. So it is then registered
// in another context, or in the next one that is made. Any thread; Map and Unmap may take long.
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

  // Maps the client's segment, which may lie anywhere so far, at `range`, and closes the segment. CUDA_ERROR_INVALID_VALUE:
  // `segment` is no whole segment, or the addresses are taken or not reserved. CUDA_ERROR_OUT_OF_MEMORY: the system maps no more.
  // Otherwise the driver's result of registering. Changes the calling thread's current context.
  CUresult Map(uint32_t segment, const Range& range) EXCLUDES(mutex_);
  // Undoes Map: the addresses are reserved as before. The driver waits for running work. CUDA_ERROR_INVALID_VALUE: nothing is
  // mapped at `address`. Otherwise the driver's result. Changes the calling thread's current context.
  CUresult Unmap(uint64_t address) EXCLUDES(mutex_);
  // True: all of [address, address + bytes) lies in one mapping.
  bool Contains(uint64_t address, uint64_t bytes) EXCLUDES(mutex_);

  // A context was made: registers the mappings that wait for one. Changes the calling thread's current context.
  void BeginContext() EXCLUDES(mutex_);
  // The context is about to end, and is current: registers its mappings in another context, or lets them wait for one.
  void EndContext(HandleId context) EXCLUDES(mutex_);

 private:
  struct Mapping {
    uint64_t bytes;
    HandleId context;  // in which it is registered; null: in none
  };
  // Registers `range` in any context but `not_in`. Succeeds, with a null `context`, when there is no such context.
  CUresult Register(const Range& range, HandleId not_in, HandleId* context);

  Worker& worker_;
  ReservedRanges& reserved_;
  Mutex mutex_;
  std::map<uint64_t, Mapping> mappings_ GUARDED_BY(mutex_);  // by base
};

}  // namespace tessera
