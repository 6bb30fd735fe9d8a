// Decides which vGPU may use a GPU, and until when. Its owner tells it what happens and asks it what to do.
//
//   GpuTime time(rules, std::move(MakePolicy("fair")).value());
//   const VgpuId vgpu = time.AddVgpu(spec, now_ns).value();
//   const SessionId session = time.SessionCame(vgpu, now_ns);
//   time.SetWants(session, true, at_ns);                        // what workers report, as often as there is something
//   const GpuTime::Decision decision = time.Decide(now_ns);     // after each batch of reports, and at ask_again_ns
//   for (const VgpuId vgpu : decision.changed) Write(time.gate(vgpu));
//
// There are three modes (GpuMode). Free: one vGPU alone has sessions, and has no limit. Armed: several have sessions, but at most
// one works. Metered: two or more work, or did within the last second. Only in metered mode are there tokens, and only then do
// workers report wants and busy spans. A policy may ask for metered mode always.
//
// In metered mode one vGPU holds the token. Its turn ends when its token's time is over, or when it rests and others wait. (A
// rest of up to kShortRestNs does not count if its rests are mostly that short.) The next vGPU gets the token as soon as the
// holder is idle. If the holder runs on, the next one gets it after the time that the holder is predicted to need, 2 ms at least
// and 50 at most. So an overrun stops nobody, and is billed. A protected vGPU that comes to want the GPU takes the token from one
// that is not protected, as far as the policy allows, and does not wait until that one is idle. If nobody is eligible Decide()
// says when to ask again.
//
// A vGPU that is always busy and wants the token may wait for itself: one of its streams may wait for work that itself waits for
// the token. The vGPU is billed meanwhile, and would never be next. So it gets a short token from time to time, whatever its
// bill. These tokens are rare: the work that they let in takes a fifth of the time at most, and no more than the vGPU's limit.
//
// Sets of tokens (token_sets.h). If the next vGPU has a session that also works on other GPUs (SetTogether), it gets no token
// yet. It is offered the GPU, and gets its token by Grant() when the other GPUs are ready. Until it uses that token the GPU is
// held for it, for kAssembleNs at most. After that the vGPU gets a token of this GPU alone if it wants one; otherwise the next
// vGPU has its turn. Idle time while others wait is charged to the vGPU that the GPU was held for, and is not billed.
//
// Equal calls give equal answers, bit for bit: no answer depends on a clock, on chance or on an address. Times are nanoseconds of
// one clock of the caller's, from 0. A report may be a little older than the last Decide() (token_ledger.h), but never newer than
// the next one. A decision takes O(vGPUs). One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "protocol/base/status.h"
#include "scheduler/admission.h"
#include "scheduler/hand_over_times.h"
#include "scheduler/policy.h"
#include "scheduler/token_ledger.h"
#include "scheduler/vgpu_state.h"

namespace tessera {

// A session of one GPU: a small number, used again once the session has left.
using SessionId = uint32_t;

class GpuTime {
 public:
  static constexpr int64_t kRestNs = kSecondNs;  // a vGPU without work for that long rests
  static constexpr int64_t kGraceMinNs = 2 * kMillisecondNs;
  static constexpr int64_t kGraceMaxNs = 50 * kMillisecondNs;
  // A vGPU that may wait for itself gets a token of kStuckTokenNs after kStuckNs + kStuckQueuedFactor x its queued time; after
  // more where its limit is less than the fifth, or than the fiftieth that token and wait allow. On a busy machine a sleeping
  // worker takes as long as that token to wake up.
  static constexpr int64_t kStuckNs = 100 * kMillisecondNs;
  static constexpr int64_t kStuckQueuedFactor = 4;
  static constexpr int64_t kStuckTokenNs = 2 * kMillisecondNs;
  // A longer queue is not believed. It is as long as a debt lasts. A worker that exaggerates gets less, and later.
  static constexpr int64_t kQueuedMaxNs = 10 * kSecondNs;
  static constexpr int64_t kAheadMaxNs =
      kMillisecondNs / 4;  // how long before a token's end it is renewed, or the next vGPU is told
  static constexpr int64_t kAssembleNs = 2 * kMillisecondNs;  // how long a GPU idles at most for a set of tokens
  static constexpr int64_t kBeginNs = kMillisecondNs / 2;     // of that, from the grant until it is used

  GpuTime(const AdmissionRules& rules, std::unique_ptr<Policy> policy);

  // vGPUs. Errors are those of AdmitVgpu(), and change nothing.
  Result<VgpuId> AddVgpu(const VgpuSpec& spec, int64_t now_ns);
  Status ChangeSpec(VgpuId vgpu, const VgpuSpec& spec);
  // The vGPU has no sessions.
  void RemoveVgpu(VgpuId vgpu);

  // Sessions. A session that has left wants nothing and is not busy.
  SessionId SessionCame(VgpuId vgpu, int64_t now_ns);
  void SessionLeft(SessionId session, int64_t now_ns);

  // What a session's worker reports. Repeated reports count once. An end that is older than its beginning counts as at the
  // beginning.
  //
  // `wants`: gated work waits; false: it has passed, or will not come. A worker says that it is busy before it says that it wants
  // nothing.
  void SetWants(SessionId session, bool wants, int64_t at_ns);
  // Work runs or is queued in the driver. A span that is already over is reported as both calls, one after the other.
  void BusyBegan(SessionId session, int64_t at_ns);
  void BusyEnded(SessionId session, int64_t at_ns);
  // At `at_ns` the driver's queue was believed to last for `estimate_ns`. The estimate shrinks as time passes.
  void SetQueued(SessionId session, int64_t estimate_ns, int64_t at_ns);
  // In free and armed mode: the session has executed something since its last report.
  void Worked(SessionId session, int64_t at_ns);

  // Sets of tokens. Whether the session's tokens on this GPU and on others are given together.
  void SetTogether(SessionId session, bool together);
  // Whether the session waits for another GPU's token. Meanwhile it falls behind here too while others have this GPU, although it
  // does not want it.
  void SetWaitsElsewhere(SessionId session, bool waits);
  // The vGPU of such a session is next at `at_ns`, if the policy lets it. Tokens that others get before then end by then. The
  // last call counts.
  void Appoint(VgpuId vgpu, int64_t at_ns);
  // From the next Decide() on the vGPU's offer, or its token, is a token until `until_ns`. Its limit may cut that. 0: withdraws
  // offer and appointment. Has no effect while another vGPU has a token.
  void Grant(VgpuId vgpu, int64_t until_ns);

  struct Decision {
    std::span<const VgpuId> changed;  // those whose gate() has changed; valid until the next call
    int64_t ask_again_ns = kNever;    // when to call Decide() if nothing is reported before; later than now
  };
  // Time does not go back.
  Decision Decide(int64_t now_ns);

  // What the workers of `vgpu` are told.
  const GateState& gate(VgpuId vgpu) const { return state(vgpu).gate; }
  GpuMode mode() const { return mode_; }
  std::optional<VgpuId> holder() const { return holder_; }
  // How long the session has now run without a token, or beyond its token, while another vGPU wanted or ran something. As of the
  // last Decide().
  int64_t OverranNs(SessionId session) const { return sessions_[session].overran_ns; }
  // When the token is expected to go to the vGPU that waits for it; kNever: nobody is next. As of the last Decide().
  int64_t HandOverNs() const;
  // The vGPU that is next for a token of a set, and waits for Grant(). As of the last Decide().
  struct Offer {
    VgpuId vgpu = 0;
    int64_t begin_ns = 0;       // when the present token is over, its own or another's
    int64_t length_ns = 0;      // of the token
    int64_t until_ns = kNever;  // the idle GPU is held for it until then; kNever: it is not held
  };
  const std::optional<Offer>& offer() const { return offer_; }
  // When the vGPU could have a token with its set: now, if it or nobody has the token; kNever: it has to wait for its turn. As of
  // the last Decide().
  int64_t JoinAtNs(VgpuId vgpu, int64_t now_ns) const;
  // How long that token could be.
  int64_t TokenLengthNs(VgpuId vgpu) const;
  // Whether the session has work that waits for a token, as of the last Decide().
  bool Waits(SessionId session) const;
  bool together(SessionId session) const { return sessions_[session].together; }
  bool waits_elsewhere(SessionId session) const { return sessions_[session].waits_elsewhere; }
  std::optional<VgpuId> appointed() const { return appointment_ ? std::optional(appointment_->vgpu) : std::nullopt; }
  const Policy& policy() const { return *policy_; }
  // Figures as of the last Decide(): UsedNs(), BilledNs(), GpuBusyNs().
  const TokenLedger& ledger() const { return ledger_; }
  // All hand-overs so far.
  const HandOverTimes& hand_overs() const { return hand_overs_; }
  // Waits, grants, sessions, overrun.
  const VgpuState& state(VgpuId vgpu) const;
  // All vGPUs, in the order in which they came.
  std::span<const VgpuId> vgpus() const { return order_; }

 private:
  struct Session {
    VgpuId vgpu = 0;
    bool present = false;
    bool wants = false;
    bool busy = false;
    bool together = false;
    bool waits_elsewhere = false;
    int64_t busy_since_ns = 0;
    int64_t overran_ns = 0;       // of its present span
    int64_t queued_until_ns = 0;  // when what is queued is believed to have run
  };

  VgpuState& at(VgpuId vgpu);
  Session& SessionAt(SessionId session);
  bool IsOpen() const { return now_ns_ < token_until_ns_; }

  void CountPassedTime(int64_t passed_ns);
  void CountOverrun(int64_t passed_ns);
  int64_t SetMode();
  void ForgetReports();
  void Look();
  int64_t DecideMetered();
  int64_t DecideHolder();
  std::optional<VgpuId> ProtectedArrival() const;
  bool OthersWait() const;
  int64_t LimitedUntilNs() const;
  int64_t StuckAtNs(VgpuId vgpu) const;
  std::optional<VgpuId> Stuck() const;
  int64_t NextStuckNs() const;
  bool PausesShortly() const;
  bool HolderGoesFirst() const;
  Choice AskPolicy();
  Choice AskBeforeAppointment();
  int64_t GiveNext(const Choice& choice);
  int64_t Give(VgpuId vgpu, int64_t begin_ns, int64_t length_ns);
  int64_t Hold(VgpuId vgpu, int64_t begin_ns, int64_t length_ns);
  void EndToken();
  void CountGrant(VgpuId vgpu);
  // gpu_time_set.cc.
  bool IsHeld() const { return held_since_ns_ >= 0 && offer_.has_value(); }
  bool InSet(VgpuId vgpu) const;
  bool NeedsSet(VgpuId vgpu) const;
  bool WaitsElsewhere(VgpuId vgpu) const;
  bool MayJoin(const VgpuView& view) const;
  const VgpuView* ViewOf(VgpuId vgpu) const;
  int64_t HoldFor(const Choice& choice);
  int64_t GoOnHolding();
  void TakeGrant();
  bool WaitsToBegin() const { return now_ns_ < begin_by_ns_; }
  void ChargeHeldTime(int64_t passed_ns);
  void ForgetVgpuOfSet(VgpuId vgpu);
  void ForgetSets();
  int64_t RenewAtNs() const;
  int64_t GraceEndNs();
  void Tell();

  const AdmissionRules rules_;
  const std::unique_ptr<Policy> policy_;
  TokenLedger ledger_;
  std::vector<std::optional<VgpuState>> states_;  // by VgpuId
  std::vector<VgpuId> order_;
  std::vector<Session> sessions_;  // by SessionId

  int64_t now_ns_ = 0;
  GpuMode mode_ = GpuMode::kFree;
  std::optional<VgpuId> holder_;
  std::optional<VgpuId> next_;
  int64_t token_until_ns_ = 0;
  int64_t token_length_ns_ = 0;
  int64_t grace_end_ns_ = 0;  // 0: not decided

  // For the histogram of hand-overs: who had the last token, and when that was over.
  std::optional<VgpuId> last_holder_;
  int64_t last_end_ns_ = 0;
  HandOverTimes hand_overs_;

  // Sets of tokens.
  struct Appointment {
    VgpuId vgpu = 0;
    int64_t at_ns = 0;
  };
  struct Granted {
    VgpuId vgpu = 0;
    int64_t until_ns = 0;
  };
  std::optional<Offer> offer_;
  std::optional<Appointment> appointment_;
  std::optional<Granted> granted_;
  int64_t held_since_ns_ = -1;    // the GPU is held for a set since then; -1: it is not
  int64_t held_gpu_busy_ns_ = 0;  // ledger_.GpuBusyNs() when held time was last charged
  int64_t begin_by_ns_ = 0;       // the holder must begin to use its set's token by then; 0: it has begun
  int64_t begin_busy_ns_ = 0;     // its ledger_.BusyNs() when it got that token
  uint32_t together_ = 0;         // sessions that get their tokens together

  // As of the last Decide().
  std::vector<VgpuView> views_;     // of order_
  std::vector<int64_t> queued_ns_;  // by VgpuId, all its sessions' together
  GpuView gpu_;
  int64_t holder_busy_ns_ = 0;
  bool others_waited_ = false;  // OthersWait(), once it was decided
  std::vector<VgpuId> changed_;
};

}  // namespace tessera
