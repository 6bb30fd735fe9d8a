// Holds the frames of one direction of an impaired link until their time has come. They come out in order.
//
// One thread pushes, one pops, any thread ends or drops.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/impaired/impairment.h"
#include "protocol/link/link.h"

namespace tessera {

class DelayLine {
 public:
  static constexpr size_t kBytesMax = size_t{64} << 20;

  struct Frame {
    FrameHeader header;
    std::unique_ptr<std::byte[]> payload;  // header.bytes of it
    uint64_t due_ns = 0;                   // MonotonicNs
  };

  explicit DelayLine(const Impairment& impairment) : impairment_(impairment), random_(impairment.seed) {}

  // Waits while more than kBytesMax are on their way. After End() or Drop() it fails with their reason.
  Status Push(Frame frame) EXCLUDES(mutex_);
  // Waits for the time of the next frame. Once the line has ended and is empty it fails with the reason.
  Result<Frame> Pop() EXCLUDES(mutex_);
  // Nothing follows. The first reason counts.
  void End(const Status& why) EXCLUDES(mutex_);
  // As End(), and loses what is on its way.
  void Drop(const Status& why) EXCLUDES(mutex_);
  // When the last frame so far comes out.
  uint64_t last_due_ns() EXCLUDES(mutex_);

 private:
  // A sleep ends late by about as much as this.
  static constexpr uint64_t kSpinNs = 100'000;

  uint64_t TimeOnWire(uint64_t bytes) const;
  uint64_t DelayNs() REQUIRES(mutex_);

  const Impairment impairment_;
  std::atomic<uint64_t> pushed_{0};
  uint64_t popped_ = 0;  // of the popping thread
  std::atomic<bool> ended_{false};
  AdaptiveSpin spin_;
  Mutex mutex_;
  ConditionVariable room_;
  ConditionVariable arrived_;  // the first frame, or the end
  std::minstd_rand random_ GUARDED_BY(mutex_);
  std::deque<Frame> frames_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t wire_free_ns_ GUARDED_BY(mutex_) = 0;  // when the sender has put all frames so far on the wire
  uint64_t due_ns_ GUARDED_BY(mutex_) = 0;        // of the last frame
  Status why_ GUARDED_BY(mutex_);
};

}  // namespace tessera
