// The real streams behind CU_STREAM_PER_THREAD: on the server every client thread's calls come from one executor thread,
// so the driver's own per-thread stream would be shared by all of them.
//
// One blocking stream (cuStreamCreate, flags CU_STREAM_DEFAULT, as the driver's per-thread stream synchronises with the
// legacy stream) per client thread and context, made on first use, destroyed when the client thread ends or the context
// goes. Source: CUDA Runtime API, "Stream synchronization behavior", per-thread default stream.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

struct DriverTable;

class ThreadStreams {
 public:
  // Streams of one session: threads that ever used their own stream, times contexts.
  static constexpr size_t kStreamsMax = 65536;

  explicit ThreadStreams(const DriverTable& driver) : driver_(driver) {}
  ~ThreadStreams();

  // The stream of client thread `thread` in `context`, which must be current on the calling thread. Any thread.
  CUresult Get(uint32_t thread, CUcontext context, CUstream* stream) EXCLUDES(mutex_);
  // The streams of `context` that exist, with their client threads. Any thread.
  std::vector<std::pair<uint32_t, CUstream>> OfContext(CUcontext context) EXCLUDES(mutex_);

  // The client thread has ended: its streams are the caller's, who destroys them.
  std::vector<CUstream> EndThread(uint32_t thread) EXCLUDES(mutex_);
  // `context` is about to be destroyed or reset: its streams are destroyed. Before the driver's call.
  void EndContext(CUcontext context) EXCLUDES(mutex_);

 private:
  const DriverTable& driver_;
  Mutex mutex_;
  std::map<std::pair<uint32_t, CUcontext>, CUstream> streams_ GUARDED_BY(mutex_);
};

}  // namespace tessera
