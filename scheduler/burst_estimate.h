// How long a token for a vGPU should be, learned from how long it runs before it rests by itself.
//
// A burst is the GPU time used between two rests. Waiting for a token is no rest. Neither is a pause of up to kShortRestNs: the
// GPU would idle as long while the token changed hands. The quantum is half of the last burst plus half of the quantum before, as
// in Gemini (Chen et al., IEEE Transactions on Cloud Computing, 2021), between 0.5 and 10 ms. After a token the GPU changes to
// another process. That takes 0.15 to 0.2 ms on an H200, whatever was run before: 2 % of a token of 10 ms. Policies may give
// longer tokens. One thread.
#pragma once

#include <cstdint>

#include "scheduler/usage_history.h"

namespace tessera {

inline constexpr int64_t kQuantumMinNs = kMillisecondNs / 2;
inline constexpr int64_t kQuantumMaxNs = 10 * kMillisecondNs;
inline constexpr int64_t kQuantumFirstNs = 2 * kMillisecondNs;  // until something is known
inline constexpr int64_t kShortRestNs = kMillisecondNs / 10;    // a hand-over takes 40 to 80 µs twice

class BurstEstimate {
 public:
  // From `at_ns` on the vGPU wants nothing and runs nothing.
  void Rested(int64_t at_ns);
  // It wants or runs something again. `billed_ns`: all that it was ever billed (TokenLedger::BilledNs).
  void Resumed(int64_t at_ns, int64_t billed_ns);
  // Its token is over, and it has more to run.
  void TokenUsedUp(int64_t billed_ns);

  int64_t quantum_ns() const { return quantum_ns_; }
  // Whether its rests tend to be so short that its token is better left with it.
  bool RestsShortly() const { return rest_ns_ <= kShortRestNs; }

 private:
  void Learn(int64_t burst_ns);

  int64_t quantum_ns_ = kQuantumFirstNs;
  int64_t burst_began_billed_ns_ = 0;
  int64_t rested_at_ns_ = -1;    // -1: it does not rest
  int64_t rest_ns_ = kSecondNs;  // half of the last rest + half of this before; long until a rest was seen
};

}  // namespace tessera
