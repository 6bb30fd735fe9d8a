#include "server/worker/gate/idle_watch.h"

#include <algorithm>
#include <utility>

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
  std::erase_if(marks_, [&](const Mark& mark) {
    if (mark.context != context) return false;
    if (mark.event != nullptr) driver_.cuEventDestroy_v2(mark.event);
    return true;
  });
  std::erase_if(capturing_, [&](const Kept& each) { return each.context == context; });
  capturing_count_.store(capturing_.size(), std::memory_order_relaxed);
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

IdleWatch::Found IdleWatch::LookAtKept(const std::function<void(uint64_t stream)>& done) {
  MutexLock lock(mutex_);
  std::erase_if(kept_, [&](const Kept& kept) {
    if (Works(kept.stream)) return false;
    done(KeyOf(kept.stream, nullptr));
    driver_.cuStreamDestroy_v2(kept.stream);
    return true;
  });
  return kept_.empty() ? Found::kIdle : Found::kWork;
}

void IdleWatch::BeforeCapture(CUstream stream) {
  LookAtMarks([](uint64_t) {});
  MarkBeforeCapture(stream, true);
}

void IdleWatch::BeforeWaitInCapture(CUstream stream) {
  if (AnyCaptures()) MarkBeforeCapture(stream, false);
}

bool IdleWatch::AnyCaptures() {
  MutexLock lock(mutex_);
  std::erase_if(capturing_, [&](const Kept& each) { return !Captures(each.stream); });
  capturing_count_.store(capturing_.size(), std::memory_order_relaxed);
  return !capturing_.empty();
}

void IdleWatch::MarkBeforeCapture(CUstream stream, bool begins) {
  // The legacy stream never captures; one that captures already has its mark, and further questions would end the capture.
  if (stream == nullptr || stream == CU_STREAM_LEGACY || Captures(stream)) return;
  CUcontext context = nullptr;
  unsigned flags = CU_STREAM_DEFAULT;
  if (driver_.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS || driver_.cuStreamGetFlags(stream, &flags) != CUDA_SUCCESS)
    return;
  if (begins) {
    AnyCaptures();
    MutexLock lock(mutex_);
    capturing_.push_back({stream, context});
    capturing_count_.store(capturing_.size(), std::memory_order_relaxed);
  }
  const CUcontext before = contexts_.current();
  if (contexts_.Set(context) == CUDA_SUCCESS) {
    MarkWork(stream, context);
    if ((flags & CU_STREAM_NON_BLOCKING) == 0) MarkWork(CU_STREAM_LEGACY, context);
  }
  RestoreContext(before);
}

void IdleWatch::MarkWork(CUstream stream, CUcontext context) {
  if (Captures(stream) || !Works(stream)) return;
  Mark mark{KeyOf(stream, context), stream, context, nullptr};
  // An event in the legacy stream would make later work of blocking streams wait for each other's earlier work.
  if (stream != CU_STREAM_LEGACY) {
    if (driver_.cuEventCreate(&mark.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
      mark.event = nullptr;
    } else if (driver_.cuEventRecord(mark.event, stream) != CUDA_SUCCESS) {
      driver_.cuEventDestroy_v2(std::exchange(mark.event, nullptr));
    }
  }
  MutexLock lock(mutex_);
  marks_.push_back(mark);
}

void IdleWatch::StreamGoes(CUstream stream) {
  MutexLock lock(mutex_);
  std::erase_if(capturing_, [&](const Kept& each) { return each.stream == stream; });
  capturing_count_.store(capturing_.size(), std::memory_order_relaxed);
  // Without an event nobody can tell any more.
  std::erase_if(marks_, [&](const Mark& mark) { return mark.stream == stream && mark.event == nullptr; });
  for (Mark& mark : marks_) {
    if (mark.stream == stream) mark.stream = nullptr;
  }
}

IdleWatch::Found IdleWatch::LookAtMarks(const std::function<void(uint64_t stream)>& done) {
  MutexLock lock(mutex_);
  if (marks_.empty()) return Found::kIdle;
  const CUcontext before = contexts_.current();
  Found found = Found::kIdle;
  std::erase_if(marks_, [&](const Mark& mark) {
    const bool is_set = contexts_.Set(mark.context) == CUDA_SUCCESS;
    const bool works = is_set && (mark.event == nullptr || driver_.cuEventQuery(mark.event) == CUDA_ERROR_NOT_READY);
    const bool captures = is_set && mark.stream != nullptr && Captures(mark.stream);
    if (works && (captures || mark.stream == nullptr)) {
      found = Found::kWork;
      return false;
    }
    if (captures) done(mark.key);
    if (mark.event != nullptr) driver_.cuEventDestroy_v2(mark.event);
    return true;
  });
  RestoreContext(before);
  return found;
}

void IdleWatch::RestoreContext(CUcontext context) {
  if (contexts_.Set(context) != CUDA_SUCCESS) contexts_.Forget();
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
      continue;  // its mark is asked
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
  found = std::min({found, LookAtStreams(waits, done), LookAtKept(done), LookAtMarks(done)});  // with any context current
  RestoreContext(before);
  return found;
}

}  // namespace tessera
