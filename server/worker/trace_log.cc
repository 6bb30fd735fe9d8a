#include "server/worker/trace_log.h"

#include <unistd.h>

#include <algorithm>

#include "protocol/base/clock.h"

namespace tessera {

void TraceLog::Add(const TraceEvent& event) {
  MutexLock lock(mutex_);
  if (events_.size() < kTraceEventsMax) events_.push_back(event);
}

std::vector<TraceEvent> TraceLog::Read(uint64_t first, uint64_t count) const {
  MutexLock lock(mutex_);
  if (first >= events_.size()) return {};
  const auto begin = events_.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(std::min<uint64_t>(count, events_.size() - first))};
}

TraceScope::TraceScope(TraceLog& log, const RecordHeader& header) : log_(log.on() ? &log : nullptr) {
  if (log_ == nullptr) return;
  event_.sequence = header.sequence;
  event_.call = header.call;
  event_.thread = static_cast<uint32_t>(gettid());
  event_.begin_ns = MonotonicNs();
}

TraceScope::~TraceScope() {
  if (log_ == nullptr) return;
  event_.end_ns = MonotonicNs();
  log_->Add(event_);
}

}  // namespace tessera
