#include "scheduler/burst_estimate.h"

#include <algorithm>

namespace tessera {

void BurstEstimate::Rested(int64_t at_ns) { rested_at_ns_ = at_ns; }

void BurstEstimate::Resumed(int64_t at_ns, int64_t billed_ns) {
  if (rested_at_ns_ < 0) return;
  const int64_t rest_ns = std::max<int64_t>(0, at_ns - rested_at_ns_);
  rested_at_ns_ = -1;
  rest_ns_ = (std::min(rest_ns, kSecondNs) + rest_ns_) / 2;
  if (rest_ns <= kShortRestNs) return;
  // What has not run at all was no burst.
  if (billed_ns > burst_began_billed_ns_) Learn(billed_ns - burst_began_billed_ns_);
  burst_began_billed_ns_ = billed_ns;
}

void BurstEstimate::TokenUsedUp(int64_t billed_ns) {
  // The burst goes on, so it is longer than this; a shorter quantum is not to be learned from it.
  Learn(std::max(billed_ns - burst_began_billed_ns_, quantum_ns_));
}

void BurstEstimate::Learn(int64_t burst_ns) {
  const int64_t mean_ns = (std::min(burst_ns, kQuantumMaxNs) + quantum_ns_) / 2;
  quantum_ns_ = std::clamp(mean_ns, kQuantumMinNs, kQuantumMaxNs);
}

}  // namespace tessera
