// The one writer of the `replies` ring: answers, notices, marks, from whichever thread has one.
//
// Appending takes a short lock, so what one thread sends arrives in its order. A full ring means a client that does not
// read (stopped in a debugger, or dead): the sender waits WorkerOptions::reply_wait_ns, then the session ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/wire/record.h"

namespace tessera {

class Channel;
class Worker;

class ReplyWriter {
 public:
  explicit ReplyWriter(Worker& worker);

  // Appends one record: `header`, whose size is filled in here, and `payload`. False when the session has ended, or ends
  // now because of this record. Any thread.
  bool Send(ReplyHeader header, std::span<const std::byte> payload) EXCLUDES(mutex_);

  // `before` is called before anything but changes of host memory and deliveries is sent, on the sender's thread: what the client
  // must know when it hears of this. It may send, and may wait as Send() does. One for the session, before the first of what it
  // is for.
  void BeforeSending(std::function<void(ReplyKind)> before) EXCLUDES(before_mutex_);

 private:
  Worker& worker_;
  std::atomic<bool> has_before_{false};
  Mutex before_mutex_;
  std::function<void(ReplyKind)> before_ GUARDED_BY(before_mutex_);
  Mutex mutex_;
};

}  // namespace tessera
