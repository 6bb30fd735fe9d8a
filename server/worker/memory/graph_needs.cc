#include "server/worker/memory/graph_needs.h"

#include <algorithm>
#include <utility>

namespace tessera {

void GraphNeeds::Set(CUgraphExec exec, LocalNeeds needs) {
  if (needs.empty()) return Forget(exec);
  MutexLock lock(mutex_);
  needs_[exec] = std::move(needs);
  any_.store(true, std::memory_order_release);
}

void GraphNeeds::Add(CUgraphExec exec, const LocalNeeds& needs) {
  if (needs.empty()) return;
  MutexLock lock(mutex_);
  LocalNeeds& all = needs_[exec];
  for (const auto& [context, bytes] : needs) all[context] = std::max(all[context], bytes);
  any_.store(true, std::memory_order_release);
}

LocalNeeds GraphNeeds::Of(CUgraphExec exec) {
  MutexLock lock(mutex_);
  const auto found = needs_.find(exec);
  return found == needs_.end() ? LocalNeeds() : found->second;
}

void GraphNeeds::Forget(CUgraphExec exec) {
  if (!any()) return;
  MutexLock lock(mutex_);
  needs_.erase(exec);
}

}  // namespace tessera
