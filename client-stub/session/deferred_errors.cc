#include "client-stub/session/deferred_errors.h"

#include <algorithm>

#include "client-stub/session/context.h"
#include "protocol/runtime/sticky_error.h"

namespace tessera {
void DeferredErrors::Add(uint32_t thread, Context* context, CUresult error) {
  if (error == CUDA_SUCCESS) return;
  if (IsStickyError(error) && context != nullptr) {
    int none = CUDA_SUCCESS;
    context->owner().sticky_error.compare_exchange_strong(none, error, std::memory_order_acq_rel);
  } else {
    MutexLock lock(mutex_);
    std::deque<CUresult>& errors = by_thread_[thread];
    if (errors.size() < kKeptPerThreadMax) errors.push_back(error);
  }
  any_.store(true, std::memory_order_release);
}

void DeferredErrors::AddOnce(uint32_t thread, CUresult error) {
  {
    MutexLock lock(mutex_);
    std::deque<CUresult>& errors = by_thread_[thread];
    if (std::find(errors.begin(), errors.end(), error) == errors.end()) errors.push_back(error);
  }
  any_.store(true, std::memory_order_release);
}

CUresult DeferredErrors::TakeSlow(uint32_t thread, const Context* context) {
  if (context != nullptr) {
    if (const int sticky = context->owner().sticky_error.load(std::memory_order_acquire)) return static_cast<CUresult>(sticky);
  }
  MutexLock lock(mutex_);
  const auto found = by_thread_.find(thread);
  if (found == by_thread_.end()) return CUDA_SUCCESS;
  const CUresult error = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) by_thread_.erase(found);
  return error;
}

void DeferredErrors::ForgetThread(uint32_t thread) {
  MutexLock lock(mutex_);
  by_thread_.erase(thread);
}

}  // namespace tessera
