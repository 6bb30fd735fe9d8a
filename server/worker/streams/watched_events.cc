#include "server/worker/streams/watched_events.h"

#include <algorithm>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "server/worker/completion.h"
#include "server/worker/worker.h"

namespace tessera {

CUresult WatchedEvents::Wait(CUevent event, std::function<void(CUresult)> done) {
  const auto waiter = std::make_shared<Waiter>(std::move(done));
  {
    MutexLock lock(mutex_);
    waiters_[event].push_back(waiter);
    count_.fetch_add(1, std::memory_order_release);
  }
  const CUresult result =
      worker_.completion().WhenEventDone(worker_.CurrentContext(), event, [this, event, waiter](CUresult gpu_result) {
        const bool detached = Forget(event, waiter.get());
        const bool left = gpu_result == CUDA_ERROR_NOT_READY;
        if (!left || !detached) waiter->Finish(left ? CUDA_ERROR_OUT_OF_MEMORY : gpu_result);
      });
  if (result != CUDA_SUCCESS) Forget(event, waiter.get());
  return result;
}

CUresult WatchedEvents::SendMark(CUevent event, uint64_t mark) {
  {
    MutexLock lock(mutex_);
    const auto [entry, inserted] = marks_.insert_or_assign(event, mark);
    if (!inserted) return CUDA_SUCCESS;  // the watch that is pending sends it
    marks_count_.fetch_add(1, std::memory_order_release);
  }
  const CUresult result = WatchForMark(worker_.CurrentContext(), event);
  if (result == CUDA_SUCCESS) return result;
  // Another thread may have left its mark to this watch meanwhile: it asks again.
  uint64_t left = MarkOf(event);
  while (!TakeMark(event, left)) left = MarkOf(event);
  if (left != mark && left != kDestroyed) worker_.SendNotice(NoticeKind::kCompletion, left, result);
  return result;
}

CUresult WatchedEvents::WatchForMark(CUcontext context, CUevent event) {
  return worker_.completion().WhenEventDone(context, event, [this, context, event](CUresult gpu_result) {
    // Since it was found done the event may have been recorded again, and then asked about with another mark. So it is asked once
    // more, with the mark known before; it lives as long as its mark is here (Destroy).
    for (;;) {
      const uint64_t mark = MarkOf(event);
      const bool asks = gpu_result == CUDA_SUCCESS && mark != kDestroyed;
      const bool again = asks && worker_.driver().cuEventQuery(event) == CUDA_ERROR_NOT_READY;
      if (again && WatchAgain(context, event)) return;
      if (!TakeMark(event, mark)) continue;
      if (mark != kDestroyed) {
        worker_.SendNotice(NoticeKind::kCompletion, mark, again ? CUDA_ERROR_NOT_SUPPORTED : gpu_result);
      }
      return;
    }
  });
}

bool WatchedEvents::WatchAgain(CUcontext context, CUevent event) {
  MutexLock lock(mutex_);  // so that what destroys the event comes behind this watch, or is seen here
  return marks_.at(event) != kDestroyed && WatchForMark(context, event) == CUDA_SUCCESS;
}

uint64_t WatchedEvents::MarkOf(CUevent event) {
  MutexLock lock(mutex_);
  return marks_.at(event);
}

bool WatchedEvents::TakeMark(CUevent event, uint64_t mark) {
  MutexLock lock(mutex_);
  const auto found = marks_.find(event);
  if (found->second != mark) return false;
  marks_.erase(found);
  marks_count_.fetch_sub(1, std::memory_order_release);
  return true;
}

bool WatchedEvents::Forget(CUevent event, const Waiter* waiter) {
  MutexLock lock(mutex_);
  const auto entry = waiters_.find(event);
  if (entry == waiters_.end()) return false;
  const bool detached = waiter->detached;
  std::erase_if(entry->second, [&](const auto& other) { return other.get() == waiter; });
  if (entry->second.empty()) waiters_.erase(entry);
  count_.fetch_sub(1, std::memory_order_release);
  return detached;
}

void WatchedEvents::LeaveIfCaptured(CUevent event, CUstream stream) {
  {
    MutexLock lock(mutex_);
    if (!waiters_.contains(event) && !marks_.contains(event)) return;
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (worker_.driver().cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE) return;
  worker_.completion().LeaveEvent(event);
}

void WatchedEvents::Detach(CUevent event) {
  std::vector<std::shared_ptr<Waiter>> waiters;
  {
    MutexLock lock(mutex_);
    const auto entry = waiters_.find(event);
    if (entry == waiters_.end()) return;
    for (const auto& waiter : entry->second) {
      if (!std::exchange(waiter->detached, true)) waiters.push_back(waiter);
    }
  }
  if (waiters.empty()) return;
  const DriverTable& driver = worker_.driver();
  CUstream stream = nullptr;
  CUresult result = driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS) result = driver.cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT);
  if (result == CUDA_SUCCESS) {
    result = worker_.completion().WhenDone(stream, [waiters](CUresult gpu_result) {
      for (const auto& waiter : waiters) waiter->Finish(gpu_result);
    });
  }
  // Without it they wait for the new record: longer than they asked for, but not wrong. In a capture they get an error.
  if (result != CUDA_SUCCESS) {
    LogDebug("an event that is waited for is recorded again: no stream, code {}", int(result));
    MutexLock lock(mutex_);
    for (const auto& waiter : waiters) waiter->detached = false;
  }
  if (stream != nullptr) driver.cuStreamDestroy_v2(stream);  // its work goes on
}

CUresult WatchedEvents::Destroy(CUevent event) {
  bool watched = false;
  if (IsWatched()) {
    MutexLock lock(mutex_);
    const auto mark = marks_.find(event);
    watched = waiters_.contains(event) || mark != marks_.end();
    if (mark != marks_.end()) mark->second = kDestroyed;
  }
  if (!watched) return worker_.driver().cuEventDestroy_v2(event);
  return worker_.completion().AfterEvent(worker_.CurrentContext(), event,
                                         [this, event] { worker_.driver().cuEventDestroy_v2(event); });
}

}  // namespace tessera
