// Sends what the driver wrote on its own: it does not wait for a call to write out what kernels printed (driver 580 on an H200
// writes it within a tenth of a second, assertions too).
#pragma once

#include <thread>

#include "protocol/base/mutex.h"

namespace tessera {

class ReplyWriter;  // reply_writer.h

// A thread of its own looks every kPeriodMs; nothing but that costs time.
class OutputWatch {
 public:
  static constexpr int kPeriodMs = 50;

  // `replies` outlives it.
  explicit OutputWatch(ReplyWriter& replies) : replies_(replies) {}
  ~OutputWatch() { Stop(); }
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  // There is code that may print: the thread is started, if it was not. Any thread.
  void Start() EXCLUDES(mutex_);
  // Ends the thread, for good. Idempotent.
  void Stop() EXCLUDES(mutex_);

 private:
  void Loop() EXCLUDES(mutex_);

  ReplyWriter& replies_;
  Mutex mutex_;
  ConditionVariable stop_changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace tessera
