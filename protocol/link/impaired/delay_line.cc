#include "protocol/link/impaired/delay_line.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "protocol/base/clock.h"

namespace tessera {

Status DelayLine::Push(Frame frame) {
  MutexLock lock(mutex_);
  while (why_.ok() && bytes_ > kBytesMax) room_.wait(mutex_);
  if (!why_.ok()) return why_;
  wire_free_ns_ = std::max(wire_free_ns_, MonotonicNs()) + TimeOnWire(frame.header.bytes);
  due_ns_ = std::max(due_ns_, wire_free_ns_ + DelayNs());
  frame.due_ns = due_ns_;
  bytes_ += frame.header.bytes;
  frames_.push_back(std::move(frame));
  pushed_.fetch_add(1, std::memory_order_release);
  if (frames_.size() == 1) arrived_.notify_one();
  return Status::Ok();
}

Result<DelayLine::Frame> DelayLine::Pop() {
  for (;;) {
    spin_.Spin([this] { return pushed_.load(std::memory_order_acquire) != popped_ || ended_.load(std::memory_order_relaxed); });
    uint64_t due_ns = 0;
    {
      MutexLock lock(mutex_);
      while (frames_.empty() && why_.ok()) arrived_.wait(mutex_);
      if (frames_.empty()) return why_;
      due_ns = frames_.front().due_ns;
      const uint64_t now_ns = MonotonicNs();
      if (due_ns <= now_ns) {
        Frame frame = std::move(frames_.front());
        frames_.pop_front();
        bytes_ -= frame.header.bytes;
        popped_ += 1;
        room_.notify_one();
        return frame;
      }
      if (due_ns - now_ns > kSpinNs) {
        arrived_.wait_for(mutex_, std::chrono::nanoseconds(due_ns - now_ns - kSpinNs));
        continue;
      }
    }
    // To let others have the core costs the time of a call; on a machine with few cores they would be what is measured else.
    while (MonotonicNs() < due_ns) sched_yield();
  }
}

void DelayLine::End(const Status& why) {
  MutexLock lock(mutex_);
  if (why_.ok()) why_ = why;
  ended_.store(true, std::memory_order_relaxed);
  room_.notify_all();
  arrived_.notify_all();
}

void DelayLine::Drop(const Status& why) {
  End(why);
  MutexLock lock(mutex_);
  frames_.clear();
  bytes_ = 0;
}

uint64_t DelayLine::last_due_ns() {
  MutexLock lock(mutex_);
  return due_ns_;
}

uint64_t DelayLine::TimeOnWire(uint64_t bytes) const {
  if (impairment_.bytes_per_second == 0) return 0;
  return (bytes + sizeof(FrameHeader)) * 1'000'000'000 / impairment_.bytes_per_second;
}

uint64_t DelayLine::DelayNs() {
  uint64_t delay_ns = impairment_.delay_ns;
  if (impairment_.jitter_ns != 0) delay_ns += random_() % (impairment_.jitter_ns + 1);
  if (impairment_.stall_ns != 0 && random_() % impairment_.stall_one_in == 0) delay_ns += impairment_.stall_ns;
  return delay_ns;
}

}  // namespace tessera
