// One GPU of the server: its vGPUs, the sessions that are in them, what they are told.
//
//   Gpu::Member* member = gpu.Join(pages, *gpu.FindVgpu("train"), true, now_ns);
//   gpu.Look(*member, now_ns);                      // the worker has rung
//   gpu.Turn(now_ns);                               // decides, writes pages; to be called again at again_ns()
//
// Looks that nobody asks for: none while the GPU is free; every kLookNs while it is armed, since nothing rings then; every
// kQuietLookNs when nothing has worked for a second, and while it is metered, for what a worker forgot to ring for. Times as in
// GpuTime. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/simulate/traced_gpu_time.h"
#include "scheduler/token_sets.h"
#include "server/broker/limit_watch.h"
#include "server/broker/row_watch.h"
#include "server/broker/vgpu_change.h"
#include "server/broker/vgpu_memory.h"
#include "server/broker/work_watch.h"
#include "server/broker/worker_pages.h"
#include "server/gate/broker_line.h"

namespace tessera {

class Gpu {
 public:
  static constexpr int64_t kLookNs = kMillisecondNs;
  static constexpr int64_t kQuietLookNs = 10 * kMillisecondNs;
  static constexpr int64_t kQuietNs = kSecondNs;
  // How often is counted what one ran beyond its tokens, where that may end it.
  static constexpr int64_t kOverrunLookNs = 100 * kMillisecondNs;
  // Decisions that nothing is reported before are at least so far apart.
  static constexpr int64_t kAgainMinNs = 10'000;

  // A session's part in this GPU.
  class Member {
   public:
    Member(WorkerPages& pages, VgpuId vgpu, SessionId session, const RowWatch& watch, const WorkWatch& work, int64_t now_ns)
        : pages_(pages), vgpu_(vgpu), session_(session), watch_(watch), work_(work), came_ns_(now_ns) {}
    VgpuId vgpu() const { return vgpu_; }
    const RowWatch::Reported& reported() const { return watch_.reported(); }

   private:
    friend class Gpu;
    WorkerPages& pages_;
    const VgpuId vgpu_;
    const SessionId session_;
    RowWatch watch_;
    WorkWatch work_;
    uint64_t executed_ = 0;  // records of the session, when CountActive() looked last
    const int64_t came_ns_;
    bool ended_ = false;                // for its overrun
    bool shares_ = false;               // its memory is its vGPU's
    uint64_t seen_bytes_ = UINT64_MAX;  // BoundMemoryOf()
  };

  // `row`: its number, and that of its rows. `overrun_after_ns`: sessions of vGPUs with Overrun::kEnd are ended after that.
  Gpu(uint32_t row, const AdmissionRules& rules, std::unique_ptr<Policy> policy, int64_t overrun_after_ns,
      TracedGpuTime::Sink sink)
      : row_(row), rules_(rules), overrun_after_ns_(overrun_after_ns), time_(rules, std::move(policy), std::move(sink)) {}

  // vGPUs. Add() is for `default`; errors as of AdmitVgpu().
  Status Add(const VgpuSpec& spec, int64_t now_ns);
  // Sessions that were admitted and are not there yet, by the name of their vGPU.
  using Coming = std::map<std::string, size_t, std::less<>>;
  // What would change to have these; errors as of PlanChange(), and nothing has changed yet.
  Result<VgpuChange> Plan(std::span<const FileVgpu> wanted, const Coming& coming = {});
  // A plan, while nothing else has changed.
  void Apply(const VgpuChange& change, int64_t now_ns);
  // The vGPU of this name, if it takes sessions.
  std::optional<VgpuId> FindVgpu(std::string_view name) const;
  // Sessions of all vGPUs of this name, also of one that takes no more.
  uint32_t SessionsOf(std::string_view name) const;
  const std::string& NameOf(VgpuId vgpu) const { return time().state(vgpu).spec.name; }

  // Sessions. `pages` outlive the member, which is the GPU's until it leaves; `alone`: it is in no other GPU. It is told at once
  // what holds for its vGPU.
  Member* Join(WorkerPages& pages, VgpuId vgpu, bool alone, int64_t now_ns);
  void Leave(Member* member, int64_t now_ns);

  // Memory. The limit of the vGPU of this name; 0: none.
  uint64_t MemoryLimitOf(std::string_view name) const;
  // Whether there is memory for one more session's context in the vGPU of this name. VgpuSpec::processes have theirs; a further
  // one's is of the vGPU's limit, and a grant's beside all that was promised, also to those that come. kResourceExhausted: a
  // sentence with how much there is.
  Status CheckRoomIn(std::string_view name, const Coming& coming) const;
  // A member has its part of its vGPU's memory from now on.
  void JoinMemoryOf(Member& member);
  // Sees whether it asks for more, which Turn() answers.
  void LookAtMemory(const Member& member) { memory_asked_ = memory_asked_ || AsksForMemory(member.pages_, row_); }
  // Of all, and tells each what others of its vGPU hold.
  void LookAtAllMemory();
  // What the sessions of a vGPU hold, as their workers say, and what contexts take of its limit. The kinds add up to `bytes`, or
  // to less while calls take and give.
  struct Memory {
    uint64_t bytes = 0;
    MemoryByKind by_kind{};

    friend bool operator==(const Memory&, const Memory&) = default;
  };
  Memory MemoryHeldBy(VgpuId vgpu) const;
  // What this member holds, as its worker says.
  uint64_t HeldBy(const Member& member) const;
  // Whether what it says takes memory from vGPUs with a limit: its own has none, and somebody has wanted one that has.
  bool TakesMemoryOfOthers(const Member& member) const;
  // So much the member's process was seen to use: it takes no more than that from vGPUs with a limit, whatever its worker says.
  // Until BelieveAllMemory().
  static void BoundMemoryOf(Member& member, uint64_t seen_bytes) { member.seen_bytes_ = seen_bytes; }
  void BelieveAllMemory() {
    for (const std::unique_ptr<Member>& member : members_) member->seen_bytes_ = UINT64_MAX;
  }

  void Look(Member& member, int64_t now_ns);
  // Looks every kLookNs until then.
  void LookOften(int64_t now_ns, int64_t until_ns);
  void Turn(int64_t now_ns);
  // When Turn() is to be called again; kNever: when something happens.
  int64_t again_ns() const { return std::min(ask_again_ns_, look_ns_); }

  // Sets of tokens (scheduler/token_sets.h). Whether it gives out tokens, and the member had a record at its gate within
  // kQuietNs.
  bool HasGated(const Member& member, int64_t now_ns) const;
  void SetTogether(const Member& member, bool together, int64_t now_ns);
  TokenSets::Part PartOf(const Member& member) const { return {row_, member.vgpu_, member.session_}; }
  // What a set asks for, with a decision and what that changes.
  void Carry(const SetOrder& order, int64_t now_ns);

  // When it is expected to pass from one vGPU to another, as of the last Turn(); kNever: it is not.
  int64_t HandOverNs() const { return mode_ == GpuMode::kMetered ? time().HandOverNs() : kNever; }

  // What the sessions of a vGPU had queued before the GPU was shared, which nobody metered: the longest of theirs; nothing while
  // it is free.
  RowWatch::Backlog QueuedBefore(VgpuId vgpu, int64_t now_ns) const;

  // What is counted of a vGPU as long as that is there, beside what GpuTime counts.
  struct Tally {
    WorkCounts work;              // as of the last CountWork()
    int64_t active_ns = 0;        // with a session that made calls
    uint64_t audit_findings = 0;  // of time
    uint64_t audit_memory_findings = 0;
  };
  const Tally& TallyOf(VgpuId vgpu) const { return vgpus_[vgpu].tally; }
  // Looks what sessions have done since the last time.
  void CountWork();
  // The same of whether they made calls, for the time since the last call.
  void CountActive(int64_t now_ns);
  // Says in the log which vGPUs have had more time than their limits. Call it once a second or more often.
  void WatchLimits(int64_t now_ns);
  void CountFinding(const Member& member, FoundMessage::What what) {
    Tally& tally = vgpus_[member.vgpu_].tally;
    ++(what == FoundMessage::What::kTime ? tally.audit_findings : tally.audit_memory_findings);
  }
  // How long it was in this mode, since its first Turn().
  int64_t InModeNs(GpuMode mode, int64_t now_ns) const;

  const GpuTime& time() const { return time_.time(); }
  uint32_t row() const { return row_; }

 private:
  struct Vgpu {
    bool retired = false;  // goes with its last session
    StaticSlot slot;
    LimitWatch limit_watch;
    std::vector<Member*> members;
    Tally tally;

    std::vector<WorkerPages*> pages() const;  // of those whose memory is the vGPU's
  };

  VgpuId IdOf(std::string_view name) const;
  void RemoveVgpu(VgpuId vgpu, int64_t now_ns);
  void DivideSlots();
  void LookAll(int64_t now_ns);
  void Decide(int64_t now_ns);
  void DecideAndFollow(int64_t now_ns);
  void EndOverrun(int64_t now_ns);
  void FollowMode(int64_t now_ns);
  void Tell(Member& member);
  void AnswerMemoryQuestions();
  // What contexts of further sessions take of a vGPU's limit.
  uint64_t ContextsOfLimit(VgpuId vgpu) const;
  // There, or coming.
  size_t SessionsOf(VgpuId vgpu, const Coming& coming) const;
  // Began without room for a context: its worker counts it with the first one that it makes, as memory that the session holds.
  bool CountsItsContext(const Member& member) const;
  // Sessions of the vGPU whose contexts are counted here.
  size_t SessionsWithRoom(VgpuId vgpu) const;
  // Lets sessions that began without make their contexts in the room of those that have ended.
  void GiveRoomFor(VgpuId vgpu);
  // What sessions hold that is of no limit: of vGPUs without one all that is believed, of grants the contexts of further
  // sessions.
  uint64_t HeldBesideLimits(const Coming& coming) const;
  Status CheckRoomInLimit(VgpuId vgpu) const;
  Status CheckRoomBesideGrants(VgpuId vgpu, const Coming& coming) const;
  int64_t LookGapNs(int64_t now_ns) const;

  const uint32_t row_;
  const AdmissionRules rules_;
  const int64_t overrun_after_ns_;
  TracedGpuTime time_;
  std::vector<Vgpu> vgpus_;  // by VgpuId
  std::vector<std::unique_ptr<Member>> members_;

  bool news_ = false;          // since the last decision
  bool memory_asked_ = false;  // since the last Turn()
  bool limit_wanted_ = false;  // somebody has wanted a vGPU with a limit of memory
  GpuMode mode_ = GpuMode::kFree;
  std::array<int64_t, 3> in_mode_ns_{};  // by mode, until mode_since_ns_
  int64_t mode_since_ns_ = -1;           // -1: nothing has happened yet
  int64_t counted_active_ns_ = -1;
  int64_t shared_ns_ = 0;  // when it was free last
  int64_t ask_again_ns_ = kNever;
  int64_t look_ns_ = kNever;  // the next look that nobody asks for
  int64_t looked_all_ns_ = 0;
  int64_t worked_ns_ = 0;  // when a look last found something
  int64_t often_until_ns_ = 0;
};

}  // namespace tessera
