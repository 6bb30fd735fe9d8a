// The interface of a policy of GPU time: it says which vGPU is next.
//
// GpuTime (gpu_time.h) keeps the books and hands the token over. The policy looks at the vGPUs and says who gets the next token,
// and for how long. It has no clock, no threads and does no I/O: equal views give equal answers. A policy is one file in
// policies/ and one line in policies/policies.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "scheduler/token_ledger.h"
#include "scheduler/vgpu_spec.h"

namespace tessera {

// The time of what never happens.
inline constexpr int64_t kNever = INT64_MAX;

// A vGPU as a policy sees it.
struct VgpuView {
  VgpuId id = 0;
  const VgpuSpec* spec = nullptr;
  uint32_t sessions = 0;
  bool active = false;           // wants or runs something, or holds the token through a short rest, or waits elsewhere
  bool waits_elsewhere = false;  // does nothing here while a session of it waits for another GPU, as part of a set of tokens
  bool eligible = false;         // wants the token (a holder: wants to go on), and its limit lets it have it
  int64_t waiting_since_ns = 0;  // of one that wants it and does not hold it
  int64_t rested_since_ns = 0;   // of one that is not active
  int64_t charged_ns = 0;        // billed since it came, plus the GPU's idle time that it caused while others waited
  int64_t waited_ns = 0;         // since it came: wanting, without token, not busy
  int64_t committed_ns = 0;      // what is left of its token, or of what it has queued, whichever is longer
  int64_t quantum_ns = 0;        // how long a token should be for its bursts (burst_estimate.h)
  int64_t overran_ns = 0;        // how far its work lately went beyond its tokens, which tells the length of its kernels
};

// The GPU as a policy sees it; valid during a call.
struct GpuView {
  int64_t now_ns = 0;
  int64_t token_begin_ns = 0;       // when the token that is asked for would begin: now, or when the holder's is over
  std::span<const VgpuView> vgpus;  // in the order in which they came
  const TokenLedger* ledger = nullptr;
  std::optional<VgpuId> holder;
  bool has_sets = false;  // a session here gets tokens together with those of other GPUs
};

// A token for `vgpu`, for `length_ns` (more than 0). Or a token for nobody: then the policy is asked again at `ask_again_ns`, and
// after each event.
struct Choice {
  std::optional<VgpuId> vgpu;
  int64_t length_ns = 0;
  int64_t ask_again_ns = kNever;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // As users write it.
  virtual std::string_view name() const = 0;
  // Time has passed, or the view has changed: called before each round of questions, once.
  virtual void Advance(const GpuView& gpu) {}
  // Who should have the next token: an eligible vGPU, perhaps the holder. Nobody, if nobody is eligible or the policy leaves the
  // GPU idle on purpose.
  virtual Choice Next(const GpuView& gpu) = 0;
  // Whether a protected vGPU that has just come to want the token takes it from its holder, who is not protected.
  virtual bool MayPreempt(const VgpuView& arrived) const { return false; }
  // Whether a vGPU that is not next here may have a token, since its session is next on another GPU.
  virtual bool MayJoin(const VgpuView& vgpu) const { return false; }
  // Whether a vGPU gets tokens although it has the GPU to itself.
  virtual bool MetersAlways() const { return false; }
  // The vGPU is gone; its number will be another's.
  virtual void Forget(VgpuId vgpu) {}
};

}  // namespace tessera
