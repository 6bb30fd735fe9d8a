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
  const Policy& policy() const { return *policy_; }
  // Figures as of the last Decide(): UsedNs(), BilledNs(), GpuBusyNs().
  const TokenLedger& ledger() const { return ledger_; }
  // Waits, sessions, overrun.
  const VgpuState& state(VgpuId vgpu) const;
  // Those that are there, in the order in which they came.
  std::span<const VgpuId> vgpus() const { return order_; }

 private:
  struct Session {
    VgpuId vgpu = 0;
    bool present = false;
    bool wants = false;
    bool busy = false;
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
  int64_t GiveNext(const Choice& choice);
  int64_t Give(VgpuId vgpu, int64_t begin_ns, int64_t length_ns);
  int64_t Hold(VgpuId vgpu, int64_t begin_ns, int64_t length_ns);
  void EndToken();
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

  // As of the last Decide().
  std::vector<VgpuView> views_;     // of order_
  std::vector<int64_t> queued_ns_;  // by VgpuId, all its sessions' together
  GpuView gpu_;
  int64_t holder_busy_ns_ = 0;
  bool others_waited_ = false;  // OthersWait(), once it was decided
  std::vector<VgpuId> changed_;
};

}  // namespace tessera
