// Sees when a vGPU has had more of its GPU's time than its limit. Work that takes longer than such work took before is let in too
// soon: nothing ends it, but it is billed, and the vGPU waits afterwards. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "scheduler/usage_history.h"

namespace tessera {

class LimitWatch {
 public:
  static constexpr int64_t kWindowNs = 30 * kSecondNs;
  static constexpr int64_t kStepNs = kSecondNs;
  // Part of the GPU's time that it may have beyond its limit: a bucket, and what was queued when a token ended.
  static constexpr double kMore = 0.03;

  // `billed_ns`: all that it was ever billed. Call it as often as something may have changed, at least each kStepNs. Returns how
  // long it had the GPU within the last kWindowNs if that was too long, and then not again for kWindowNs.
  std::optional<int64_t> Look(double limit, int64_t billed_ns, int64_t now_ns) {
    // What it had under another limit was right then.
    if (limit != limit_) looks_.clear();
    limit_ = limit;
    while (!looks_.empty() && looks_.front().at_ns < now_ns - kWindowNs) looks_.pop_front();
    if (looks_.empty() || now_ns - looks_.back().at_ns >= kStepNs) looks_.push_back({now_ns, billed_ns});
    const int64_t had_ns = billed_ns - looks_.front().billed_ns;
    if (limit >= 1 || now_ns < quiet_until_ns_ || static_cast<double>(had_ns) <= (limit + kMore) * kWindowNs) return std::nullopt;
    quiet_until_ns_ = now_ns + kWindowNs;
    return had_ns;
  }

 private:
  struct Seen {
    int64_t at_ns;
    int64_t billed_ns;
  };
  std::deque<Seen> looks_;  // the oldest first
  double limit_ = 1;
  int64_t quiet_until_ns_ = 0;
};

}  // namespace tessera
