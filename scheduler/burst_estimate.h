// How long a vGPU likes to run before it rests by itself, and so how long a token for it should be.
//
// A burst is what it uses from one rest to the next; waiting for a token is no rest, and a pause of up to kShortRestNs is none
// either: handing the token over would idle the GPU for as long. Quantum = half of the burst + half of the quantum before, as in
// Gemini (Chen et al., IEEE Transactions on Cloud Computing, 2021), between 0.5 and 10 ms. At the end of a token the
// GPU changes to another process, which takes 0.15 to 0.2 ms (an H200), whatever was run before: 2 % of such a token. Policies
// may give longer ones. One thread.
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
  // It wants nothing and runs nothing, from `at_ns` on.
  void Rested(int64_t at_ns);
  // It wants or runs something again. `billed_ns`: all that it was ever billed (TokenLedger::BilledNs).
  void Resumed(int64_t at_ns, int64_t billed_ns);
  // A token of it is over, and it would have gone on.
  void TokenUsedUp(int64_t billed_ns);

  int64_t quantum_ns() const { return quantum_ns_; }
  // Whether its rests tend to be so short that its token is better left with it.
  bool RestsShortly() const { return rest_ns_ <= kShortRestNs; }

 private:
  void Learn(int64_t burst_ns);

  int64_t quantum_ns_ = kQuantumFirstNs;
  int64_t burst_began_billed_ns_ = 0;
  int64_t rested_at_ns_ = -1;    // -1: it does not rest
  int64_t rest_ns_ = kSecondNs;  // half of the last rest + half of this before; rests were long until it is known better
};

}  // namespace tessera
