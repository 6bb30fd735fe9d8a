// When the records of a session were run, for a client that traces (TESSERA_TRACE). Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/wire/record.h"
#include "protocol/wire/trace_event.h"

namespace tessera {

class TraceLog {
 public:
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void Start() { on_.store(true, std::memory_order_relaxed); }
  void Stop() { on_.store(false, std::memory_order_relaxed); }
  // Beyond kTraceEventsMax nothing is kept.
  void Add(const TraceEvent& event) EXCLUDES(mutex_);
  // Up to `count` events from number `first` on.
  std::vector<TraceEvent> Read(uint64_t first, uint64_t count) const EXCLUDES(mutex_);

 private:
  std::atomic<bool> on_{false};
  mutable Mutex mutex_;
  std::vector<TraceEvent> events_ GUARDED_BY(mutex_);
};

// The time that its scope takes, as the execution of one record.
class TraceScope {
 public:
  TraceScope(TraceLog& log, const RecordHeader& header);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceLog* const log_;  // null: off
  TraceEvent event_;
};

}  // namespace tessera
