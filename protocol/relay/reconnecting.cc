// The client's end of a lost link: it connects again.
#include <algorithm>
#include <chrono>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/mutex.h"
#include "protocol/link/link_supply.h"

namespace tessera {
namespace {

constexpr uint64_t kPauseNsMin = 5'000'000;
constexpr uint64_t kPauseNsMax = 500'000'000;
// The longest pause after a link that came about but did not last.
constexpr uint64_t kShortPauseNsMax = 20'000'000;
// How long one attempt may take: an address that swallows packets must not use up the whole time.
constexpr uint64_t kAttemptNsMax = 2'000'000'000;
// A link that lasted so long does not count as a failed attempt.
constexpr uint64_t kLastedNs = 100'000'000;

class Reconnecting : public LinkSupply {
 public:
  explicit Reconnecting(ConnectFunction connect) : connect_(std::move(connect)) {}

  Result<NextLink> Next(uint64_t deadline_ns) override {
    pause_ns_ = MonotonicNs() - connected_ns_ > kLastedNs ? 0 : std::clamp(pause_ns_, kPauseNsMin, kShortPauseNsMax);
    Status last(StatusCode::kTimedOut, "");
    while (Pause(deadline_ns)) {
      pause_ns_ = std::clamp(2 * pause_ns_, kPauseNsMin, kPauseNsMax);
      Result<std::unique_ptr<Link>> link = connect_(std::min(deadline_ns, MonotonicNs() + kAttemptNsMax));
      if (link.ok()) {
        connected_ns_ = MonotonicNs();
        return NextLink{std::move(*link), {}};
      }
      last = link.status();
      if (last.code() == StatusCode::kVersionMismatch || last.code() == StatusCode::kPermissionDenied) return last;
    }
    MutexLock lock(mutex_);
    return stopped_ ? Status(StatusCode::kUnavailable, "the session was stopped") : Status(StatusCode::kTimedOut, last.message());
  }

  void Stop() override {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  // Waits until it is time for the next attempt. False when there is to be none.
  bool Pause(uint64_t deadline_ns) {
    const uint64_t until_ns = MonotonicNs() + pause_ns_;
    MutexLock lock(mutex_);
    for (;;) {
      const uint64_t now_ns = MonotonicNs();
      if (stopped_ || now_ns >= deadline_ns) return false;
      if (now_ns >= until_ns) return true;
      changed_.wait_for(mutex_, std::chrono::nanoseconds(std::min(until_ns, deadline_ns) - now_ns));
    }
  }

  const ConnectFunction connect_;
  // For the thread in Next().
  uint64_t pause_ns_ = 0;
  uint64_t connected_ns_ = 0;

  Mutex mutex_;
  ConditionVariable changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<LinkSupply> MakeReconnecting(ConnectFunction connect) {
  return std::make_unique<Reconnecting>(std::move(connect));
}

}  // namespace tessera
