// Keeps failures of calls that had already returned, until another call returns them.
//
// - A failure that breaks the context (sticky_error.h) is returned by every later call in that context that may return it,
//   until the context is reset.
// - Any other one would natively have come from the call itself: it is returned once, by the next call of the same thread
//   that may return it.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "protocol/base/mutex.h"

namespace tessera {

struct Context;

class DeferredErrors {
 public:
  // One-shot errors kept for a thread that never asks. Later ones are dropped: the first cause counts.
  static constexpr size_t kKeptPerThreadMax = 16;

  // A notice: `call` of thread `thread` in `context` (null: unknown or none) failed. Any thread.
  void Add(uint32_t thread, Context* context, CUresult error) EXCLUDES(mutex_);
  // Adds an error that is not sticky, unless the thread has it already.
  void AddOnce(uint32_t thread, CUresult error) EXCLUDES(mutex_);
  // What a call of `thread` in `context` must return instead of doing its work; CUDA_SUCCESS mostly. Takes a one-shot
  // error.
  CUresult Take(uint32_t thread, const Context* context) {
    if (!any_.load(std::memory_order_acquire)) [[likely]]
      return CUDA_SUCCESS;
    return TakeSlow(thread, context);
  }
  void ForgetThread(uint32_t thread) EXCLUDES(mutex_);

 private:
  CUresult TakeSlow(uint32_t thread, const Context* context) EXCLUDES(mutex_);

  std::atomic<bool> any_{false};  // false only while no error is kept
  Mutex mutex_;
  std::unordered_map<uint32_t, std::deque<CUresult>> by_thread_ GUARDED_BY(mutex_);
};

}  // namespace tessera
