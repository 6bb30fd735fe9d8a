// The one writer of the `replies` ring: answers, notices, marks, from whichever thread has one.
//
// Appending takes a short lock, so what one thread sends arrives in its order. A full ring means a client that does not
// read (stopped in a debugger, or dead): the sender waits `wait_ns`, then the session ends.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/wire/record.h"

namespace tessera {

class Channel;       // protocol/channel
class DeviceOutput;  // device_output.h
class SessionEnd;    // session_end.h

class ReplyWriter {
 public:
  // All outlive it; `output` may be null: nothing catches what the driver writes.
  ReplyWriter(Channel& channel, SessionEnd& end, DeviceOutput* output, uint64_t wait_ns);

  // Appends one record: `header`, whose size is filled in here, and `payload`. False when the session has ended, or ends
  // now because of this record. Any thread.
  bool Send(ReplyHeader header, std::span<const std::byte> payload) EXCLUDES(mutex_);

  // As Worker::SendNotice() and Worker::DrainDeviceOutput().
  bool SendNotice(NoticeKind kind, uint64_t extra, CUresult result, std::span<const std::byte> payload);
  void DrainDeviceOutput();

  // `before` is called before anything but changes of host memory and deliveries is sent, on the sender's thread: what the client
  // must know when it hears of this. It may send, and may wait as Send() does. One for the session, before the first of what it
  // is for.
  void BeforeSending(std::function<void(ReplyKind)> before) EXCLUDES(before_mutex_);

 private:
  Channel& channel_;
  SessionEnd& end_;
  DeviceOutput* const output_;
  const uint64_t wait_ns_;
  std::atomic<bool> has_before_{false};
  Mutex before_mutex_;
  std::function<void(ReplyKind)> before_ GUARDED_BY(before_mutex_);
  Mutex mutex_;
};

}  // namespace tessera
