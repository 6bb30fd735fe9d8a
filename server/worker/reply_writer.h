// The one writer of the `replies` ring: answers, notices, marks, from whichever thread has one.
//
// Appending takes a short lock, so what one thread sends arrives in its order. A full ring means a client that does not
// read (stopped in a debugger, or dead): the sender waits WorkerOptions::reply_wait_ns, then the session ends.
#pragma once

#include <cstddef>
#include <cstdint>
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

 private:
  Worker& worker_;
  Mutex mutex_;
};

}  // namespace tessera
