// The time of one GPU: who may use it until when. Whoever owns it tells it what happens, and asks it what to do.
//
//   GpuTime time(rules, std::move(MakePolicy("fair")).value());
//   const VgpuId vgpu = time.AddVgpu(spec, now_ns).value();
//   const SessionId session = time.SessionCame(vgpu, now_ns);
//   time.SetWants(session, true, at_ns);                        // what workers report, as often as there is something
//   const GpuTime::Decision decision = time.Decide(now_ns);     // after each batch of reports, and at ask_again_ns
//   for (const VgpuId vgpu : decision.changed) Write(time.gate(vgpu));
//
// Three modes (GpuMode). Free while one vGPU alone has sessions, without a limit; armed while no more than one of several works;
// metered as soon as a second one does, until a second after that. Only in metered mode are there tokens, and only then do
// workers report wants and busy spans. The policy may ask for tokens always.
//
// In metered mode one vGPU holds the token. Its turn ends when it rests and others wait (a rest of up to kShortRestNs is none for
// one whose rests are mostly that short), or when its token's time is over: the next one gets the token as soon as the holder is
// idle, or after what the holder is predicted to have left, 2 ms at least and 50 at most. So who overruns stops nobody, and is
// billed. A protected vGPU that comes to want the GPU takes the token from one that is not, without waiting for idle, as far as
// the policy lets it. Where nobody is eligible Decide() says when to ask again.
//
// Who is busy without a pause and wants the token may wait for itself: what ends the wait of one of its streams stands behind the
// work that waits for the token, and each moment is billed meanwhile. So it gets a short token from time to time, whatever its
// bill and its limit, so rarely that what it lets in so is a fifth of the time at most.
//
// Sets of tokens (token_sets.h): a vGPU that is next for a session that works on other GPUs as well (SetTogether) gets no token
// yet. The GPU is offered to it, and its token comes with Grant(), when the other GPUs have come. Nobody has the GPU meanwhile,
// for kAssembleNs at most until it is used. Then one that wants it has it alone, and for one that does not the next one has its
// turn. What the GPU idles so while others wait is charged to whom it was held for, and not billed.
//
// Equal calls give equal answers, bit for bit: there is no clock, no chance and no address in it. Times are int64 nanoseconds of
// one clock of the caller's, at least 0; a report may be a little older than what was decided since (token_ledger.h), and none is
// newer than the next Decide(). A decision takes O(vGPUs). One thread.
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
  static constexpr int64_t kRestNs = kSecondNs;  // after that long without work a vGPU rests
  static constexpr int64_t kGraceMinNs = 2 * kMillisecondNs;
  static constexpr int64_t kGraceMaxNs = 50 * kMillisecondNs;
  // After how long without a token, and after how many times what it has queued, one that may wait for itself gets a token, and
  // of what length: a sleeping worker takes that long on a busy machine.
  static constexpr int64_t kStuckNs = 100 * kMillisecondNs;
  static constexpr int64_t kStuckQueuedFactor = 4;
  static constexpr int64_t kStuckTokenNs = 2 * kMillisecondNs;
  // More is not believed to be queued: no longer than a debt lasts. Who says more than is true gets less, and later.
  static constexpr int64_t kQueuedMaxNs = 10 * kSecondNs;
  static constexpr int64_t kAheadMaxNs =
      kMillisecondNs / 4;  // how long before its end a token is renewed, or the next one is told
  static constexpr int64_t kAssembleNs = 2 * kMillisecondNs;  // how long a GPU idles at most for a set of tokens
  static constexpr int64_t kBeginNs = kMillisecondNs / 2;     // of that, from the grant until it is used

  GpuTime(const AdmissionRules& rules, std::unique_ptr<Policy> policy);

  // vGPUs. Errors are those of AdmitVgpu(); nothing has changed then.
  Result<VgpuId> AddVgpu(const VgpuSpec& spec, int64_t now_ns);
  Status ChangeSpec(VgpuId vgpu, const VgpuSpec& spec);
  // It has no sessions.
  void RemoveVgpu(VgpuId vgpu);

  // Sessions. One that leaves wants nothing and is not busy any more.
  SessionId SessionCame(VgpuId vgpu, int64_t now_ns);
  void SessionLeft(SessionId session, int64_t now_ns);

  // What a session's worker reports. What is reported twice counts once; an end before its beginning is at it.
  // Gated work waits; or has passed, or will not come any more. A worker says that it is busy before it says that it wants
  // nothing.
  void SetWants(SessionId session, bool wants, int64_t at_ns);
  // Work runs or is queued in the driver. A span that is told afterwards is both, one after the other.
  void BusyBegan(SessionId session, int64_t at_ns);
  void BusyEnded(SessionId session, int64_t at_ns);
  // How long what is queued in the driver was believed to take, at that time. It is believed to become less as time passes.
  void SetQueued(SessionId session, int64_t estimate_ns, int64_t at_ns);
  // Free or armed: it has executed something since the last look.
  void Worked(SessionId session, int64_t at_ns);

  // Sets of tokens. The session's tokens on this GPU and on others are to be given together, from now on or no longer.
  void SetTogether(SessionId session, bool together);
  // The session waits for another GPU's token: it is behind here, too, while others have this one, though it does not want it.
  void SetWaitsElsewhere(SessionId session, bool waits);
  // The vGPU, of such a session, is next at `at_ns`, where its policy lets it be by then: tokens that others get until then end
  // by then. Of two, the later call counts.
  void Appoint(VgpuId vgpu, int64_t at_ns);
  // As of the next Decide(), what is offered to the vGPU, or what it has, is a token until `until_ns`, which its limit may cut;
  // 0: it is offered and appointed no longer. Void while another one has a token.
  void Grant(VgpuId vgpu, int64_t until_ns);

  struct Decision {
    std::span<const VgpuId> changed;  // whose gate() is another one now; valid until the next call
    int64_t ask_again_ns = kNever;    // Decide() at that time, if nothing is reported before; later than now
  };
  // Time does not go back.
  Decision Decide(int64_t now_ns);

  // What the workers of `vgpu` are to be told.
  const GateState& gate(VgpuId vgpu) const { return state(vgpu).gate; }
  GpuMode mode() const { return mode_; }
  std::optional<VgpuId> holder() const { return holder_; }
  // How long the session has run in one piece without a token, or beyond it, while another vGPU wanted or ran something. As of
  // the last Decide().
  int64_t OverranNs(SessionId session) const { return sessions_[session].overran_ns; }
  // When the token is expected to become another's, who waits for it; kNever: nobody is next. As of the last Decide().
  int64_t HandOverNs() const;
  // Who is next, for a token with its set: Grant() is expected. As of the last Decide().
  struct Offer {
    VgpuId vgpu = 0;
    int64_t begin_ns = 0;       // when the token that another one, or it itself, has is over
    int64_t length_ns = 0;      // of the token
    int64_t until_ns = kNever;  // the GPU is idle, and held for it until then; kNever: it is not
  };
  const std::optional<Offer>& offer() const { return offer_; }
  // When the vGPU could have a token with its set: now when it has one, or nobody does; kNever: it has to wait for its turn. By
  // what is known since the last Decide().
  int64_t JoinAtNs(VgpuId vgpu, int64_t now_ns) const;
  // How long that token could be.
  int64_t TokenLengthNs(VgpuId vgpu) const;
  // Whether the session has work that a token is missing for, as of the last Decide().
  bool Waits(SessionId session) const;
  bool together(SessionId session) const { return sessions_[session].together; }
  bool waits_elsewhere(SessionId session) const { return sessions_[session].waits_elsewhere; }
  std::optional<VgpuId> appointed() const { return appointment_ ? std::optional(appointment_->vgpu) : std::nullopt; }
  const Policy& policy() const { return *policy_; }
  // Figures as of the last Decide(): UsedNs(), BilledNs(), GpuBusyNs().
  const TokenLedger& ledger() const { return ledger_; }
  // Of all changes of the holder so far.
  const HandOverTimes& hand_overs() const { return hand_overs_; }
  // Waits, grants, sessions, overrun.
  const VgpuState& state(VgpuId vgpu) const;
  // Those that are there, in the order in which they came.
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
    int64_t overran_ns = 0;       // of the span that goes on
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

  // For who counts: who had the last token, and when that was over.
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
  int64_t held_since_ns_ = -1;    // nobody has a token since then, for a set; -1: not
  int64_t held_gpu_busy_ns_ = 0;  // ledger_.GpuBusyNs(), when that was last charged
  int64_t begin_by_ns_ = 0;       // the holder has not begun to use a set's token, and keeps it until then; 0: it has
  int64_t begin_busy_ns_ = 0;     // its ledger_.BusyNs() when it got that
  uint32_t together_ = 0;         // sessions

  // As of the last Decide().
  std::vector<VgpuView> views_;     // of order_
  std::vector<int64_t> queued_ns_;  // by VgpuId, all its sessions' together
  GpuView gpu_;
  int64_t holder_busy_ns_ = 0;
  bool others_waited_ = false;  // OthersWait(), once it was decided
  std::vector<VgpuId> changed_;
};

}  // namespace tessera
