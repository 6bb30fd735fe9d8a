// Put it around the appending of work that may use mirrors; a part of device_work.h. Where pages are shared it enqueues a meeting
// before and after the work; otherwise it tells the server. It does nothing without mirrors, and nothing while the stream is
// captured (launches of the graph do it).
//
//   MirroredWork mirrored(call, stream);
//   if (mirrored.result() != CUDA_SUCCESS) return mirrored.result();
//   ... append; on failure return ...
//   if (const CUresult met = mirrored.Appended(); met != CUDA_SUCCESS) return met;
//
// Calling thread only.
#pragma once

#include <cuda.h>

#include "client-stub/memory/host_mirrors.h"
#include "client-stub/session/basic_call.h"

namespace tessera {

class MirroredWork {
 public:
  MirroredWork(BasicCall& call, HandleId stream);
  MirroredWork(const MirroredWork&) = delete;
  MirroredWork& operator=(const MirroredWork&) = delete;

  // Not CUDA_SUCCESS: the call has failed with it and nothing may be appended.
  CUresult result() const { return result_; }
  // After the work. Once.
  CUresult Appended();

 private:
  BasicCall& call_;
  const HandleId stream_;
  HostMirrors& mirrors_;
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace tessera
