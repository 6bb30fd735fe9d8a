#include "server/emulator/driver/device/device_time.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "protocol/base/clock.h"

namespace tessera::emulator {
namespace {

constexpr uint64_t kSliceNs = kDeviceSliceUs * 1000;

// So that slices do not overlap.
uint64_t RoundUpUs(uint64_t ns) { return (ns + 999) / 1000; }

bool IsSet(const std::atomic<bool>* flag) { return flag != nullptr && flag->load(std::memory_order_relaxed); }

void SleepUntil(uint64_t when_ns) {
  const timespec when{static_cast<time_t>(when_ns / 1'000'000'000), static_cast<long>(when_ns % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
}

// Where the stream is whose work this thread does.
DeviceTime*& OfThread() {
  thread_local DeviceTime* on_device = nullptr;
  return on_device;
}

}  // namespace

void DeviceTime::Join() {
  std::lock_guard lock(mutex_);
  // Also beside a stream that has not left yet, nobody gets time that is past.
  if (occupying_.empty() && bodies_ == 0) used_until_ns_ = std::max(used_until_ns_, MonotonicNs());
  if (streams_++ == 0) round_.Want(true);
}

void DeviceTime::Leave() {
  std::lock_guard lock(mutex_);
  if (--streams_ != 0) return;
  round_.Want(false);
  slice_end_ns_ = 0;
  round_.Pass(MonotonicNs() / 1000, RoundUpUs(used_until_ns_));
}

void DeviceTime::Occupy(uint64_t duration_ns, const std::atomic<bool>* cancelled) {
  std::unique_lock lock(mutex_);
  const auto own = occupying_.insert(occupying_.end(), 0);
  ShowRunning();
  while (own != occupying_.begin() && !IsSet(cancelled)) turned_.wait_for(lock, std::chrono::nanoseconds(kSliceNs));
  while (duration_ns > 0 && !IsSet(cancelled)) {
    const uint32_t signals_seen = round_.signals();
    const uint64_t now_ns = MonotonicNs();
    if (!HasSlice(now_ns)) {
      WaitForSlice(lock, signals_seen);
      continue;
    }
    const uint64_t begin_ns = used_until_ns_;
    const uint64_t end_ns = std::min(begin_ns + duration_ns, slice_end_ns_.load());
    if (end_ns > now_ns) {
      lock.unlock();
      SleepUntil(end_ns);
      lock.lock();
    }
    Use(end_ns);
    duration_ns -= end_ns - begin_ns;
  }
  occupying_.erase(own);
  ShowRunning();
  turned_.notify_all();
}

void DeviceTime::BeginBody() {
  std::lock_guard lock(mutex_);
  if (bodies_++ == 0) {
    const uint64_t now_ns = MonotonicNs();
    if (!occupying_.empty()) Use(std::min<uint64_t>(now_ns, slice_end_ns_));
    // It is interpreted from now on, not from when the device was last used.
    used_until_ns_ = std::max(used_until_ns_, now_ns);
  }
  ShowRunning();
}

void DeviceTime::EndBody() {
  std::lock_guard lock(mutex_);
  const uint64_t now_ns = MonotonicNs();
  CheckSlice(now_ns);
  if (slice_end_ns_ != 0) Use(now_ns);  // until now nobody else has had the device, also when the slice is over
  --bodies_;
  ShowRunning();
}

void DeviceTime::AwaitSlice(const std::atomic<bool>* cancelled) {
  if (MonotonicNs() < slice_end_ns_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_);
  for (uint32_t signals_seen = round_.signals(); !HasSlice(MonotonicNs()) && !IsSet(cancelled); signals_seen = round_.signals()) {
    WaitForSlice(lock, signals_seen);
  }
}

void DeviceTime::CheckSlice(uint64_t now_ns) {
  if (slice_end_ns_ == 0 || round_.Holds(slice_end_ns_ / 1000)) return;
  round_.Want(true);
  // Kernels of stated duration keep what is left of it: others have the device from a later time on. A time that is past
  // interprets nothing.
  if (bodies_ != 0) Use(std::min<uint64_t>(now_ns, slice_end_ns_));
  if (bodies_ != 0 || used_until_ns_ >= slice_end_ns_) slice_end_ns_ = 0;
}

bool DeviceTime::TakeSlice(uint64_t now_ns) {
  std::optional<uint64_t> end_us = round_.Look(now_ns / 1000);
  if (end_us && bodies_ != 0) {
    end_us = round_.Restart(now_ns / 1000);
    used_until_ns_ = std::max(used_until_ns_, now_ns);
  }
  if (!end_us) return false;
  slice_end_ns_ = *end_us * 1000;
  if (waiting_ != 0) round_.SignalOwn();
  return true;
}

bool DeviceTime::HasSlice(uint64_t now_ns) {
  while (CheckSlice(now_ns), slice_end_ns_ != 0 || TakeSlice(now_ns)) {
    used_until_ns_ = std::max(used_until_ns_, slice_end_ns_ - std::min<uint64_t>(slice_end_ns_, kSliceNs));
    const uint64_t at_ns = bodies_ != 0 ? std::max(now_ns, used_until_ns_) : used_until_ns_;
    if (at_ns < slice_end_ns_) return true;
    if (bodies_ != 0) Use(at_ns);
    slice_end_ns_ = round_.Pass(now_ns / 1000, RoundUpUs(at_ns)).value_or(0) * 1000;
  }
  return false;
}

void DeviceTime::WaitForSlice(std::unique_lock<std::mutex>& lock, uint32_t signals_seen) {
  const uint64_t patience_us = round_.PatienceUs(MonotonicNs() / 1000);
  ++waiting_;
  lock.unlock();
  round_.Wait(signals_seen, patience_us);
  lock.lock();
  --waiting_;
}

void DeviceTime::Use(uint64_t until_ns) {
  if (until_ns <= used_until_ns_) return;
  busy_ns_ += until_ns - used_until_ns_;
  used_until_ns_ = until_ns;
  round_.Publish(busy_ns_);
}

void JoinDevice(DeviceTime& time) {
  if (OfThread() == &time) return;
  LeaveDevice();
  time.Join();
  OfThread() = &time;
}

void LeaveDevice() {
  if (OfThread() != nullptr) OfThread()->Leave();
  OfThread() = nullptr;
}

}  // namespace tessera::emulator
