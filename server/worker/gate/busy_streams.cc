#include "server/worker/gate/busy_streams.h"

#include <algorithm>

namespace tessera {

thread_local BusyStreams::Last BusyStreams::last_;

void BusyStreams::TouchSlow(CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return;
  MutexLock lock(mutex_);
  Entry& entry = entries_[stream];
  entry.touched = next_++;
  if (executor_ != std::thread::id() && executor_ != std::this_thread::get_id()) entry.sticky = true;
  last_ = {this, stream, round_.load(std::memory_order_relaxed)};
}

std::vector<BusyStreams::Use> BusyStreams::Unfinished() {
  MutexLock lock(mutex_);
  executor_ = std::this_thread::get_id();
  round_.fetch_add(1, std::memory_order_acq_rel);
  std::vector<Use> uses;
  for (const auto& [stream, entry] : entries_) {
    if (entry.sticky || entry.touched > entry.finished) uses.push_back({stream, entry.touched});
  }
  return uses;
}

void BusyStreams::Finished(std::span<const Use> uses) {
  MutexLock lock(mutex_);
  for (const Use& use : uses) {
    const auto entry = entries_.find(use.stream);
    if (entry != entries_.end() && entry->second.finished < use.touched) entry->second.finished = use.touched;
  }
}

void BusyStreams::Forget(CUstream stream) {
  MutexLock lock(mutex_);
  entries_.erase(stream);
  round_.fetch_add(1, std::memory_order_acq_rel);
}

void BusyStreams::NoteOrphan(CUcontext context) {
  MutexLock lock(mutex_);
  ++orphans_[context];
}

uint64_t BusyStreams::Orphans(CUcontext context) {
  MutexLock lock(mutex_);
  const auto found = orphans_.find(context);
  return found == orphans_.end() ? 0 : found->second;
}

void BusyStreams::OrphansDone(CUcontext context, uint64_t orphans) {
  MutexLock lock(mutex_);
  const auto found = orphans_.find(context);
  if (found != orphans_.end() && (found->second -= std::min(found->second, orphans)) == 0) orphans_.erase(found);
}

}  // namespace tessera
