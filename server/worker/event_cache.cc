#include "server/worker/event_cache.h"

#include "generated/driver_table.h"
#include "server/worker/threads/thread_contexts.h"

namespace tessera {

CUresult EventCache::Take(CUcontext context, CUevent* event) {
  {
    MutexLock lock(mutex_);
    if (const auto found = idle_.find(context); found != idle_.end() && !found->second.empty()) {
      *event = found->second.back();
      found->second.pop_back();
      return CUDA_SUCCESS;
    }
  }
  const CUcontext before = contexts_.current();
  if (const CUresult result = contexts_.Set(context); result != CUDA_SUCCESS) return result;
  const CUresult result = driver_.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
  if (before != context) {
    if (const CUresult restored = contexts_.Set(before); restored != CUDA_SUCCESS) contexts_.Forget();
  }
  return result;
}

void EventCache::Put(CUcontext context, CUevent event, bool good) {
  if (good) {
    MutexLock lock(mutex_);
    std::vector<CUevent>& idle = idle_[context];
    if (idle.size() < kIdleMax) {
      idle.push_back(event);
      return;
    }
  }
  driver_.cuEventDestroy_v2(event);
}

void EventCache::DropContext(CUcontext context) {
  std::vector<CUevent> events;
  {
    MutexLock lock(mutex_);
    const auto found = idle_.find(context);
    if (found == idle_.end()) return;
    events.swap(found->second);
    idle_.erase(found);
  }
  for (const CUevent event : events) driver_.cuEventDestroy_v2(event);
}

}  // namespace tessera
