// What instantiated graphs need of local memory (local_memory.h). Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

// What each thread of some kernels needs, by the context that they run in.
using LocalNeeds = std::map<HandleId, uint64_t>;

class GraphNeeds {
 public:
  // Whether any ever needed something: before that there is nothing to ask.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // In place of what it needed before.
  void Set(CUgraphExec exec, LocalNeeds needs) EXCLUDES(mutex_);
  // Beside what it needed before: a part of it has changed.
  void Add(CUgraphExec exec, const LocalNeeds& needs) EXCLUDES(mutex_);
  LocalNeeds Of(CUgraphExec exec) EXCLUDES(mutex_);
  void Forget(CUgraphExec exec) EXCLUDES(mutex_);

 private:
  std::atomic<bool> any_{false};
  Mutex mutex_;
  std::map<CUgraphExec, LocalNeeds> needs_ GUARDED_BY(mutex_);  // those that need something
};

}  // namespace tessera
