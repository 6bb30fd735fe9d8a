#include "scheduler/limit_bucket.h"

#include <algorithm>
#include <cmath>

namespace tessera {

void LimitBucket::Advance(int64_t now_ns, int64_t billed_ns, int64_t waits_ns) {
  const double filled_ns = level_ns_ + limit_ * static_cast<double>(now_ns - now_ns_);
  const double most_ns = static_cast<double>(std::max(kDepthNs, unit_ns_)) + limit_ * static_cast<double>(waits_ns);
  // What it has waited for stays until it is used.
  level_ns_ = std::min(filled_ns, std::max(most_ns, level_ns_));
  level_ns_ -= static_cast<double>(billed_ns - billed_ns_);
  now_ns_ = now_ns;
  billed_ns_ = billed_ns;
}

void LimitBucket::Overran(int64_t overrun_ns) { unit_ns_ = std::max(unit_ns_, std::min(overrun_ns, kSecondNs)); }

int64_t LimitBucket::EnoughNs(int64_t wanted_ns) const { return std::min(wanted_ns, kDepthNs / 4); }

int64_t LimitBucket::AllowedNs(int64_t wanted_ns, int64_t unused_ns) const {
  if (limit_ >= 1) return INT64_MAX;
  const int64_t level_ns = static_cast<int64_t>(level_ns_) - unused_ns;
  return level_ns < EnoughNs(wanted_ns) ? 0 : level_ns;
}

int64_t LimitBucket::AllowedAtNs(int64_t wanted_ns) const {
  const double missing_ns = static_cast<double>(EnoughNs(wanted_ns)) - level_ns_;
  if (limit_ >= 1 || missing_ns <= 0) return now_ns_;
  return now_ns_ + static_cast<int64_t>(std::ceil(missing_ns / limit_)) + 1;
}

}  // namespace tessera
