// A vGPU's limit: a bucket of GPU time. It fills at the rate of the limit, and each bill is taken from it.
//
// The bucket holds max(10 ms, the longest overrun of a token), so that windows of 100 ms stay even. While the vGPU waits for
// others the bucket also keeps what fills it during that wait. Otherwise a vGPU that gets just its limit would lose the time of
// each wait. So in any window the vGPU gets its limit plus one bucket, one unit and limit x its longest wait at most. An overrun
// makes the level negative. The vGPU works that off before its next token. One thread.
#pragma once

#include <cstdint>

#include "scheduler/usage_history.h"

namespace tessera {

class LimitBucket {
 public:
  static constexpr int64_t kDepthNs = 10 * kMillisecondNs;

  // Begins full. 1: no limit.
  LimitBucket(double limit, int64_t now_ns, int64_t billed_ns) : limit_(limit), now_ns_(now_ns), billed_ns_(billed_ns) {}

  void SetLimit(double limit) { limit_ = limit; }
  // `billed_ns`: all that it was ever billed. `waits_ns`: how long it has waited for others that run; 0: it does not wait for
  // them.
  void Advance(int64_t now_ns, int64_t billed_ns, int64_t waits_ns);
  // It ran for `overrun_ns` beyond the end of a token. The longest such time is its unit.
  void Overran(int64_t overrun_ns);

  // How long it may run now, beyond the `unused_ns` that is left of its token; INT64_MAX: no limit. 0 until there is enough for
  // `wanted_ns` (or a quarter of the depth), so that tokens do not become tiny.
  int64_t AllowedNs(int64_t wanted_ns, int64_t unused_ns = 0) const;
  // When AllowedNs(wanted_ns) becomes more than 0.
  int64_t AllowedAtNs(int64_t wanted_ns) const;

 private:
  int64_t EnoughNs(int64_t wanted_ns) const;

  double limit_;
  int64_t now_ns_;
  int64_t billed_ns_;
  int64_t unit_ns_ = 0;
  double level_ns_ = kDepthNs;
};

}  // namespace tessera
