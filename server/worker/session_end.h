// The end of one session: whether it has ended, and why. Whoever finds a reason to end it says so here; Worker owns it.
#pragma once

#include <atomic>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"

namespace tessera {

class Channel;  // protocol/channel

// Any thread.
class SessionEnd {
 public:
  // `channel` outlives it.
  explicit SessionEnd(Channel& channel) : channel_(channel) {}
  SessionEnd(const SessionEnd&) = delete;
  SessionEnd& operator=(const SessionEnd&) = delete;

  // Ends the session and its channel with this reason. Only the first one counts.
  void End(Status reason) EXCLUDES(mutex_);
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // The reason that counted; Ok before the end.
  Status reason() EXCLUDES(mutex_);

 private:
  Channel& channel_;
  std::atomic<bool> ended_{false};
  Mutex mutex_;
  Status reason_ GUARDED_BY(mutex_);
};

}  // namespace tessera
