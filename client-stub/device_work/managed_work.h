// Put it around the appending of work that may use managed memory; a part of device_work.h. Costs one load if there is none.
//
//   ManagedWork managed(call, stream);
//   if (managed.result() != CUDA_SUCCESS) return managed.result();
//   ... append ...
//
// Work that a stream captures uses nothing before its graph is launched. Calling thread only.
#pragma once

#include <cuda.h>

#include "client-stub/managed/managed_memory.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

class ManagedWork {
 public:
  // Work that may use any managed memory: a kernel, a graph.
  ManagedWork(BasicCall& call, HandleId stream);
  // A copy or a set: what it writes and reads, in managed memory or not. An empty range: nothing.
  ManagedWork(BasicCall& call, HandleId stream, const Range& written, const Range& read);
  ~ManagedWork();
  ManagedWork(const ManagedWork&) = delete;
  ManagedWork& operator=(const ManagedWork&) = delete;

  // Not CUDA_SUCCESS: the call has failed with it and nothing may be appended.
  CUresult result() const { return result_; }

 private:
  void Begin(BasicCall& call, const ManagedUse& use);

  ManagedMemory* memory_ = nullptr;  // null: nothing to do
  ManagedUse uses_[2];
  int count_ = 0;
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace tessera
