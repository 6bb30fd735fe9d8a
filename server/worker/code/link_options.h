// The options of links (cuLinkCreate) by the handle of their state. Any thread.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"
#include "server/worker/code/jit_options.h"

namespace tessera {

// The driver writes logs into the buffers given at creation for as long as the link lives, so they live as long.
class LinkOptions {
 public:
  void Keep(HandleId state, std::unique_ptr<JitOptions> options) {
    MutexLock lock(mutex_);
    options_[state.value()] = std::move(options);
  }
  // A link is used by one call at a time (its client thread waits), so the pointer may leave the lock.
  JitOptions* Find(HandleId state) {
    MutexLock lock(mutex_);
    const auto found = options_.find(state.value());
    return found == options_.end() ? nullptr : found->second.get();
  }
  void Drop(HandleId state) {
    MutexLock lock(mutex_);
    options_.erase(state.value());
  }

 private:
  Mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<JitOptions>> options_ GUARDED_BY(mutex_);
};

}  // namespace tessera
