// A vGPU's limit: a bucket of GPU time that fills at the rate of the limit, and that what it is billed is taken from.
//
// It holds max(10 ms, the longest that it ran beyond a token), so that windows of 100 ms stay even. While the vGPU waits for
// others it also holds what fills it during that wait, else who gets no more than its limit would lose whatever it had to wait
// for. So in any window it gets its limit, one bucket, one unit and limit x its longest wait at most. Overrun makes the bucket
// negative, and is worked off before the next token. One thread.
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
  // `billed_ns`: all that it was ever billed. `waits_ns`: for how long it could have run, and others did; 0: it does not wait for
  // them.
  void Advance(int64_t now_ns, int64_t billed_ns, int64_t waits_ns);
  // It ran for `overrun_ns` beyond the end of a token: as long as that is its unit.
  void Overran(int64_t overrun_ns);

  // What it may run for now, beyond `unused_ns` that it has a token for already; INT64_MAX without a limit. Nothing as long as
  // there is too little for `wanted_ns` (or a quarter of the depth): tokens are not to be crumbs.
  int64_t AllowedNs(int64_t wanted_ns, int64_t unused_ns = 0) const;
  // When AllowedNs(wanted_ns) is more than nothing.
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
