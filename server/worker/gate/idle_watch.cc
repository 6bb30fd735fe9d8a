#include "server/worker/gate/idle_watch.h"

#include <algorithm>

#include "generated/driver_table.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/threads/thread_contexts.h"

namespace tessera {

void IdleWatch::NoteContext(CUcontext context) {
  if (context == nullptr) return;
  MutexLock lock(mutex_);
  used_.insert(context);
}

void IdleWatch::ForgetContext(CUcontext context) {
  MutexLock lock(mutex_);
  used_.erase(context);
  std::erase_if(kept_, [&](const Kept& kept) {
    if (kept.context != context) return false;
    driver_.cuStreamDestroy_v2(kept.stream);
    return true;
  });
}

void IdleWatch::DestroyWhenDone(CUstream stream, CUcontext context) {
  MutexLock lock(mutex_);
  kept_.push_back({stream, context});
}

void IdleWatch::DestroyKept() {
  MutexLock lock(mutex_);
  for (const Kept& kept : kept_) driver_.cuStreamDestroy_v2(kept.stream);
  kept_.clear();
}

IdleWatch::Found IdleWatch::LookAtKept() {
  MutexLock lock(mutex_);
  for (; !kept_.empty(); kept_.pop_front()) {
    if (Works(kept_.front().stream)) return Found::kWork;
    driver_.cuStreamDestroy_v2(kept_.front().stream);
  }
  return Found::kIdle;
}

bool IdleWatch::Captures(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool IdleWatch::Works(CUstream stream) const { return driver_.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY; }

IdleWatch::Found IdleWatch::LookAtStreams(const HeldStreams::View& waits, const std::function<void(uint64_t stream)>& done) {
  std::vector<BusyStreams::Use> finished;
  Found found = Found::kIdle;
  for (const BusyStreams::Use& use : streams_.Unfinished()) {
    if (waits.Find(use.stream, nullptr) != nullptr) {
      found = std::min(found, Found::kWaits);
    } else if (Captures(use.stream)) {
      continue;  // it is asked when its capture has ended
    } else if (Works(use.stream)) {
      found = Found::kWork;
    } else {
      finished.push_back(use);
      done(KeyOf(use.stream, nullptr));
    }
  }
  streams_.Finished(finished);
  return found;
}

IdleWatch::Found IdleWatch::Look(const HeldStreams::View& waits, const std::function<void(uint64_t stream)>& done) {
  if (away_.load(std::memory_order_acquire) != 0) return Found::kWork;
  const CUcontext before = contexts_.current();
  std::vector<CUcontext> used;
  {
    MutexLock lock(mutex_);
    used.assign(used_.begin(), used_.end());
  }
  Found found = Found::kIdle;
  for (CUcontext context : used) {
    if (waits.Find(CU_STREAM_LEGACY, context) != nullptr) {
      found = std::min(found, Found::kWaits);
      continue;
    }
    if (contexts_.Set(context) != CUDA_SUCCESS || Captures(CU_STREAM_LEGACY)) continue;
    if (Works(CU_STREAM_LEGACY)) {
      found = Found::kWork;
    } else {
      done(KeyOf(CU_STREAM_LEGACY, context));
    }
  }
  found = std::min({found, LookAtStreams(waits, done), LookAtKept()});  // with one of the contexts current, if there is any
  if (contexts_.Set(before) != CUDA_SUCCESS) contexts_.Forget();
  return found;
}

}  // namespace tessera
