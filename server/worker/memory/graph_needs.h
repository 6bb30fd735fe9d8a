// How much local memory instantiated graphs need (local_memory.h). Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

// The bytes of local memory that each thread of some kernels needs, by the context that the kernels run in.
using LocalNeeds = std::map<HandleId, uint64_t>;

class GraphNeeds {
 public:
  // Whether any graph ever needed local memory. Until then there is nothing to ask.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Replaces what `exec` needed before.
  void Set(CUgraphExec exec, LocalNeeds needs) EXCLUDES(mutex_);
  // Adds to what `exec` needed before, since a part of it has changed. Of each context the larger need counts.
  void Add(CUgraphExec exec, const LocalNeeds& needs) EXCLUDES(mutex_);
  // Returns what `exec` needs; nothing for an instance that was never noted.
  LocalNeeds Of(CUgraphExec exec) EXCLUDES(mutex_);
  void Forget(CUgraphExec exec) EXCLUDES(mutex_);

 private:
  std::atomic<bool> any_{false};
  Mutex mutex_;
  std::map<CUgraphExec, LocalNeeds> needs_ GUARDED_BY(mutex_);  // those that need something
};

}  // namespace tessera
