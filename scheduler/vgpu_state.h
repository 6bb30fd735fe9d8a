// What GpuTime knows of one vGPU: its sessions' wants and work taken together, its waits, its bursts, its limit. One thread.
#pragma once

#include <cstdint>

#include "scheduler/burst_estimate.h"
#include "scheduler/limit_bucket.h"
#include "scheduler/policy.h"
#include "scheduler/vgpu_spec.h"

namespace tessera {

// Free: nobody shares the GPU; there are no tokens and no bills. Armed: others have sessions, but these rest. Metered: tokens are
// given.
enum class GpuMode { kFree, kArmed, kMetered };

// "free", "armed", "metered".
std::string_view GpuModeName(GpuMode mode);

// What a vGPU's workers are told.
struct GateState {
  GpuMode mode = GpuMode::kFree;
  int64_t open_until_ns = kNever;  // work may be started before that; 0: a token was taken back, or there was none
  bool next = false;               // a token is about to come

  friend bool operator==(const GateState&, const GateState&) = default;
};

struct VgpuState {
  VgpuState(const VgpuSpec& wanted_spec, int64_t now_ns) : spec(wanted_spec), bucket(wanted_spec.limit, now_ns, 0) {}

  bool wants() const { return wanting > 0; }
  bool busy() const { return working > 0; }
  bool active() const { return wants() || busy(); }
  // Call it after `wanting` or `working` has changed. `was_active`: active() before that. `billed_ns`: TokenLedger::BilledNs().
  void Changed(bool was_active, int64_t at_ns, int64_t billed_ns);
  // The driver finished all its work at `at_ns`. `token_end_ns`: the end of its current or last token.
  void WorkedUntil(int64_t at_ns, int64_t token_end_ns);
  // Its token has ended, or was taken back.
  void TokenEnded(int64_t at_ns, int64_t billed_ns);

  VgpuSpec spec;
  uint32_t sessions = 0;
  uint32_t wanting = 0;  // sessions with gated work that waits
  uint32_t working = 0;  // sessions that are busy

  int64_t worked_at_ns = -1;  // when it was last seen to work; -1: never
  int64_t rested_since_ns = 0;
  int64_t waiting_since_ns = 0;
  int64_t waited_ns = 0;          // in all
  uint64_t grants = 0;            // tokens, in all
  int64_t idled_ns = 0;           // how long the GPU was idle in its tokens while others waited
  int64_t busy_since_ns = 0;      // if it is busy
  int64_t overran_since_ns = -1;  // the end of the token that it has overrun; -1: none
  uint64_t sets_failed = 0;       // how often the GPU was held for its set of tokens and it did not use it
  int64_t overran_ns = 0;         // how far its work lately went beyond its tokens
  bool arrived = false;           // it has come from rest and had no token since then

  BurstEstimate burst;
  LimitBucket bucket;
  GateState gate;
};

}  // namespace tessera
