#include "server/worker/gate/held_streams.h"

#include <algorithm>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"

namespace tessera {
namespace {

bool IsDefault(CUstream stream) { return stream == nullptr || stream == CU_STREAM_LEGACY; }

}  // namespace

// A blocking stream's function stands behind all that the default stream was given before, and before all that it is given later.
const HeldStreams::Open* HeldStreams::View::Find(CUstream stream, CUcontext context) const {
  const auto found = std::ranges::find_if(open, [&](const Open& each) {
    return IsDefault(stream) ? each.wait.holds_default && each.wait.context == context : each.wait.stream == stream;
  });
  return found == open.end() ? nullptr : &*found;
}

HeldStreams::HeldStreams(const DriverTable& driver, std::function<void(uint64_t now_ns)> on_end)
    : driver_(driver), on_end_(std::move(on_end)) {}

HeldStreams::Wait HeldStreams::Expect(CUstream stream, CUcontext current) {
  if (on_end_ == nullptr) return {};
  Wait wait{.context = current, .holds_default = true, .enqueued_ns = MonotonicNs()};
  if (!IsDefault(stream)) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    unsigned flags = 0;
    // A stream that is captured is not asked: that could end its capture.
    const bool known = driver_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE &&
                       driver_.cuStreamGetCtx(stream, &wait.context) == CUDA_SUCCESS &&
                       driver_.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS;
    if (!known) return {};
    wait.stream = stream;
    wait.holds_default = (flags & CU_STREAM_NON_BLOCKING) == 0;
  }
  MutexLock lock(mutex_);
  wait.streams_gone = streams_gone_;
  return wait;
}

uint64_t HeldStreams::Began(const Wait& wait) {
  if (wait.context == nullptr) return 0;
  MutexLock lock(mutex_);
  open_.push_back({++last_, wait, MonotonicNs()});
  open_count_.store(open_.size(), std::memory_order_relaxed);
  return last_;
}

void HeldStreams::Ended(uint64_t number) {
  if (number == 0) return;
  MutexLock lock(mutex_);
  if (std::erase_if(open_, [&](const Open& each) { return each.number == number; }) == 0) return;
  open_count_.store(open_.size(), std::memory_order_relaxed);
  ++ended_;
  if (!std::exchange(rests_, false)) return;
  const uint64_t now_ns = MonotonicNs();
  ended_ns_.store(now_ns, std::memory_order_release);
  on_end_(now_ns);
}

void HeldStreams::StreamGoes() {
  MutexLock lock(mutex_);
  ++streams_gone_;
}

HeldStreams::View HeldStreams::Look() {
  MutexLock lock(mutex_);
  View view{open_, ended_};
  std::erase_if(view.open, [&](const Open& each) REQUIRES(mutex_) { return each.wait.streams_gone != streams_gone_; });
  return view;
}

uint64_t HeldStreams::SinceNs(CUstream stream, CUcontext context) {
  if (open_count_.load(std::memory_order_relaxed) == 0) return 0;
  const View view = Look();
  const Open* const open = view.Find(stream, context);
  return open == nullptr ? 0 : open->began_ns;
}

bool HeldStreams::Rest(const View& view, const std::function<void()>& action) {
  MutexLock lock(mutex_);
  if (view.ended != ended_) return false;
  rests_ = true;
  action();
  return true;
}

uint64_t HeldStreams::GoOn() {
  MutexLock lock(mutex_);
  rests_ = false;
  return ended_ns_.exchange(0, std::memory_order_relaxed);
}

}  // namespace tessera
