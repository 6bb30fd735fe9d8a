#include "server/worker/idle_watch.h"

#include "generated/driver_table.h"
#include "server/worker/busy_streams.h"
#include "server/worker/thread_contexts.h"

namespace tessera {

void IdleWatch::NoteContext(CUcontext context) {
  if (context == nullptr) return;
  MutexLock lock(mutex_);
  used_.insert(context);
}

void IdleWatch::ForgetContext(CUcontext context) {
  MutexLock lock(mutex_);
  used_.erase(context);
}

bool IdleWatch::Captures(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool IdleWatch::Works(CUstream stream) const { return driver_.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY; }

bool IdleWatch::StreamsIdle(const std::function<void(uint64_t stream)>& done) {
  std::vector<BusyStreams::Use> finished;
  bool idle = true;
  for (const BusyStreams::Use& use : streams_.Unfinished()) {
    if (Captures(use.stream)) continue;  // it is asked when its capture has ended
    if (Works(use.stream)) {
      idle = false;
    } else {
      finished.push_back(use);
      done(KeyOf(use.stream, nullptr));
    }
  }
  streams_.Finished(finished);
  return idle;
}

bool IdleWatch::Idle(const std::function<void(uint64_t stream)>& done) {
  if (away_.load(std::memory_order_acquire) != 0) return false;
  const CUcontext before = contexts_.current();
  std::vector<CUcontext> used;
  {
    MutexLock lock(mutex_);
    used.assign(used_.begin(), used_.end());
  }
  bool idle = true;
  for (CUcontext context : used) {
    if (contexts_.Set(context) != CUDA_SUCCESS || Captures(CU_STREAM_LEGACY)) continue;
    if (Works(CU_STREAM_LEGACY)) {
      idle = false;
    } else {
      done(KeyOf(CU_STREAM_LEGACY, context));
    }
  }
  idle = StreamsIdle(done) && idle;  // with one of the contexts current, if there is any
  if (contexts_.Set(before) != CUDA_SUCCESS) contexts_.Forget();
  return idle;
}

}  // namespace tessera
