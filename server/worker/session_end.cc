#include "server/worker/session_end.h"

#include <utility>

#include "protocol/channel/channel.h"

namespace tessera {

void SessionEnd::End(Status reason) {
  {
    MutexLock lock(mutex_);
    if (ended_.load(std::memory_order_relaxed)) return;
    reason_ = reason;
    ended_.store(true, std::memory_order_release);
  }
  if (reason.ok()) {
    channel_.Leave();
  } else {
    channel_.Fail(std::move(reason));
  }
}

Status SessionEnd::reason() {
  MutexLock lock(mutex_);
  return reason_;
}

}  // namespace tessera
