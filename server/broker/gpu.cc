#include "server/broker/gpu.h"

#include <fmt/core.h>

#include <algorithm>

#include "protocol/base/bytes_text.h"
#include "protocol/base/check.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

GateMode ModeOf(GpuMode mode) {
  switch (mode) {
    case GpuMode::kFree: return GateMode::kFree;
    case GpuMode::kArmed: return GateMode::kArmed;
    case GpuMode::kMetered: return GateMode::kMetered;
  }
  return GateMode::kMetered;
}

uint64_t Minus(uint64_t left, uint64_t right) { return left - std::min(left, right); }

GateWord WordOf(const GateState& gate) {
  const bool metered = gate.mode == GpuMode::kMetered;
  return {ModeOf(gate.mode), gate.next, metered ? static_cast<uint64_t>(gate.open_until_ns) : 0};
}

}  // namespace

// vGPUs.

Status Gpu::Add(const VgpuSpec& spec, int64_t now_ns) {
  const Result<VgpuId> vgpu = time_.AddVgpu(spec, now_ns);
  if (!vgpu.ok()) return vgpu.status();
  if (vgpus_.size() <= vgpu.value()) vgpus_.resize(vgpu.value() + 1);
  vgpus_[vgpu.value()] = {};
  DivideSlots();
  return Status::Ok();
}

void Gpu::RemoveVgpu(VgpuId vgpu, int64_t now_ns) {
  time_.RemoveVgpu(vgpu, now_ns);
  vgpus_[vgpu] = {};
  DivideSlots();
}

VgpuId Gpu::IdOf(std::string_view name) const {
  const auto vgpus = time().vgpus();
  const auto found = std::find_if(vgpus.begin(), vgpus.end(), [&](VgpuId each) { return time().state(each).spec.name == name; });
  CHECK(found != vgpus.end());
  return *found;
}

std::optional<VgpuId> Gpu::FindVgpu(std::string_view name) const {
  for (const VgpuId vgpu : time().vgpus()) {
    if (time().state(vgpu).spec.name == name && !vgpus_[vgpu].retired) return vgpu;
  }
  return std::nullopt;
}

uint32_t Gpu::SessionsOf(std::string_view name) const {
  uint32_t sessions = 0;
  for (const VgpuId vgpu : time().vgpus()) {
    if (time().state(vgpu).spec.name == name) sessions += time().state(vgpu).sessions;
  }
  return sessions;
}

Result<VgpuChange> Gpu::Plan(std::span<const FileVgpu> wanted, const Coming& coming) {
  limit_wanted_ = limit_wanted_ || std::ranges::any_of(wanted, [](const FileVgpu& vgpu) { return vgpu.spec.memory_bytes != 0; });
  std::vector<PresentVgpu> present;
  for (const VgpuId vgpu : time().vgpus()) present.push_back({time().state(vgpu).spec, time().state(vgpu).sessions});
  AdmissionRules rules = rules_;
  if (rules.memory_bytes != 0) rules.memory_bytes = std::max<uint64_t>(Minus(rules.memory_bytes, HeldBesideLimits(coming)), 1);
  return PlanChange(present, wanted, rules);
}

void Gpu::Apply(const VgpuChange& change, int64_t now_ns) {
  for (const std::string& name : change.removed) RemoveVgpu(IdOf(name), now_ns);
  // Who is retired may come back with a later file.
  for (const VgpuId vgpu : time().vgpus()) {
    const std::string& name = time().state(vgpu).spec.name;
    vgpus_[vgpu].retired = std::find(change.retired.begin(), change.retired.end(), name) != change.retired.end();
  }
  for (const VgpuSpec& spec : change.changed) {
    const VgpuId vgpu = IdOf(spec.name);
    const bool memory = time().state(vgpu).spec.memory_bytes != spec.memory_bytes;
    CHECK(time_.ChangeSpec(vgpu, spec, now_ns).ok());
    if (memory) ChangeMemoryLimit(vgpus_[vgpu].pages(), row_, spec.memory_bytes);
  }
  for (const FileVgpu& vgpu : change.added) CHECK(Add(vgpu.spec, now_ns).ok());
  DivideSlots();
  news_ = true;
}

void Gpu::DivideSlots() {
  std::vector<SlotShare> shares;
  for (const VgpuId vgpu : time().vgpus()) shares.push_back({time().state(vgpu).spec.request, time().state(vgpu).spec.limit});
  const std::vector<StaticSlot> slots = DivideIntoSlots(shares);
  for (size_t i = 0; i < slots.size(); ++i) {
    Vgpu& vgpu = vgpus_[time().vgpus()[i]];
    vgpu.slot = slots[i];
    for (Member* member : vgpu.members) member->pages_.TellSlot(row_, vgpu.slot);
  }
}

// Sessions.

Gpu::Member* Gpu::Join(WorkerPages& pages, VgpuId vgpu, bool alone, int64_t now_ns) {
  const SessionId session = time_.SessionCame(vgpu, now_ns);
  const RowWatch watch(pages.report(), row_, alone, now_ns);
  const WorkWatch work(pages.report().rows[row_]);
  Member* const member = members_.emplace_back(std::make_unique<Member>(pages, vgpu, session, watch, work, now_ns)).get();
  member->executed_ = pages.report().executed.load(std::memory_order_relaxed);
  vgpus_[vgpu].members.push_back(member);
  pages.TellSlot(row_, vgpus_[vgpu].slot);
  Tell(*member);
  news_ = true;
  return member;
}

void Gpu::Leave(Member* member, int64_t now_ns) {
  const VgpuId id = member->vgpu_;
  member->work_.Look(&vgpus_[id].tally.work);
  time_.SessionLeft(member->session_, now_ns);
  std::erase(vgpus_[id].members, member);
  std::erase_if(members_, [&](const std::unique_ptr<Member>& each) { return each.get() == member; });
  GiveRoomFor(id);
  if (vgpus_[id].retired && vgpus_[id].members.empty()) RemoveVgpu(id, now_ns);
  news_ = true;
}

// Memory.

std::vector<WorkerPages*> Gpu::Vgpu::pages() const {
  std::vector<WorkerPages*> pages;
  for (Member* member : members) {
    if (member->shares_) pages.push_back(&member->pages_);
  }
  return pages;
}

uint64_t Gpu::MemoryLimitOf(std::string_view name) const {
  const std::optional<VgpuId> vgpu = FindVgpu(name);
  return vgpu ? time().state(*vgpu).spec.memory_bytes : 0;
}

uint64_t Gpu::ContextsOfLimit(VgpuId vgpu) const {
  const VgpuSpec& spec = time().state(vgpu).spec;
  if (spec.memory_bytes == 0 || IsOfGrant(spec)) return 0;
  return ContextsBytes(SessionsWithRoom(vgpu), spec.processes, rules_.context_bytes);
}

bool Gpu::CountsItsContext(const Member& member) const {
  return member.pages_.context_bytes(row_).load(std::memory_order_relaxed) != 0;
}

size_t Gpu::SessionsWithRoom(VgpuId vgpu) const {
  const auto has_room = [&](const Member* member) { return member->shares_ && !CountsItsContext(*member); };
  return static_cast<size_t>(std::ranges::count_if(vgpus_[vgpu].members, has_room));
}

// One that has made its context counts it until its end; the room is the next one's then.
void Gpu::GiveRoomFor(VgpuId vgpu) {
  const VgpuSpec& spec = time().state(vgpu).spec;
  for (Member* member : vgpus_[vgpu].members) {
    if (!CountsItsContext(*member)) continue;
    if (spec.memory_bytes != 0 && SessionsWithRoom(vgpu) >= spec.processes) return;
    const auto& contexts = member->pages_.report().rows[row_].memory_by_kind[static_cast<size_t>(MemoryKind::kContexts)];
    if (contexts.load(std::memory_order_seq_cst) == 0) member->pages_.context_bytes(row_).store(0, std::memory_order_seq_cst);
  }
}

size_t Gpu::SessionsOf(VgpuId vgpu, const Coming& coming) const {
  const auto found = coming.find(NameOf(vgpu));
  return vgpus_[vgpu].members.size() + (found == coming.end() ? 0 : found->second);
}

uint64_t Gpu::HeldBesideLimits(const Coming& coming) const {
  uint64_t held = 0;
  for (const VgpuId vgpu : time().vgpus()) {
    const VgpuSpec& spec = time().state(vgpu).spec;
    const size_t sessions = SessionsOf(vgpu, coming);
    if (spec.memory_bytes == 0) {
      for (const Member* member : vgpus_[vgpu].members) held += std::min(HeldBy(*member), member->seen_bytes_);
      held += sessions * rules_.context_bytes;
    }
    if (spec.memory_bytes != 0 && IsOfGrant(spec)) held += ContextsBytes(sessions, spec.processes, rules_.context_bytes);
  }
  return held;
}

Status Gpu::CheckRoomIn(std::string_view name, const Coming& coming) const {
  const std::optional<VgpuId> vgpu = FindVgpu(name);
  if (!vgpu || rules_.context_bytes == 0) return Status::Ok();
  const VgpuSpec& spec = time().state(*vgpu).spec;
  if (spec.memory_bytes == 0) return Status::Ok();
  if (IsOfGrant(spec)) return CheckRoomBesideGrants(*vgpu, coming);
  return SessionsWithRoom(*vgpu) < spec.processes ? Status::Ok() : CheckRoomInLimit(*vgpu);
}

Status Gpu::CheckRoomInLimit(VgpuId vgpu) const {
  const VgpuSpec& spec = time().state(vgpu).spec;
  const uint64_t held = MemoryHeldBy(vgpu).bytes;
  if (held <= spec.memory_bytes && rules_.context_bytes <= spec.memory_bytes - held) return Status::Ok();
  return Status(
      StatusCode::kResourceExhausted,
      fmt::format("vGPU '{}' has no memory for one more program: {} of {} are held, and its context takes {}; end a program "
                  "of the vGPU, or have its limit raised",
                  spec.name, BytesText(held), BytesText(spec.memory_bytes), BytesText(rules_.context_bytes)));
}

Status Gpu::CheckRoomBesideGrants(VgpuId vgpu, const Coming& coming) const {
  const VgpuSpec& spec = time().state(vgpu).spec;
  const size_t sessions = SessionsOf(vgpu, coming);
  if (rules_.memory_bytes == 0 || sessions < spec.processes) return Status::Ok();
  uint64_t left = Minus(rules_.memory_bytes, HeldBesideLimits(coming));
  for (const VgpuId each : time().vgpus()) left = Minus(left, MemoryTakenBy(time().state(each).spec, rules_));
  if (rules_.context_bytes <= left) return Status::Ok();
  return Status(
      StatusCode::kResourceExhausted,
      fmt::format("the job's {} process{} use the GPU, it asked for {}, and beside all grants {} are left for one more's "
                  "context of {}: end one of them, or start the job with a larger 'tessera run --processes'",
                  sessions, sessions == 1 ? "" : "es", spec.processes, BytesText(left), BytesText(rules_.context_bytes)));
}

void Gpu::JoinMemoryOf(Member& member) {
  member.shares_ = true;
  JoinMemory(vgpus_[member.vgpu_].pages(), member.pages_, row_, time().state(member.vgpu_).spec.memory_bytes,
             ContextsOfLimit(member.vgpu_));
  LookAtMemory(member);
}

void Gpu::LookAtAllMemory() {
  for (const std::unique_ptr<Member>& member : members_) LookAtMemory(*member);
  for (const VgpuId vgpu : time().vgpus()) {
    GiveRoomFor(vgpu);
    const std::vector<WorkerPages*> pages = vgpus_[vgpu].pages();
    if (time().state(vgpu).spec.memory_bytes != 0) TellMemoryOfOthers(pages, row_, ContextsOfLimit(vgpu));
  }
}

void Gpu::AnswerMemoryQuestions() {
  memory_asked_ = false;
  for (const std::unique_ptr<Member>& member : members_) {
    if (!AsksForMemory(member->pages_, row_)) continue;
    if (member->shares_) {
      AnswerMemory(vgpus_[member->vgpu_].pages(), member->pages_, row_, ContextsOfLimit(member->vgpu_));
    } else {
      // Its vGPU is not there: others of it may hold what is left of the limit.
      RefuseMemory(member->pages_, row_);
    }
  }
}

// More than the limit, where that was lowered. More than the GPU has is made up.
uint64_t Gpu::HeldBy(const Member& member) const {
  const uint64_t said = member.pages_.report().rows[row_].memory_held.load(std::memory_order_relaxed);
  return rules_.memory_bytes == 0 ? said : std::min(said, rules_.memory_bytes);
}

bool Gpu::TakesMemoryOfOthers(const Member& member) const {
  return limit_wanted_ && time().state(member.vgpu_).spec.memory_bytes == 0 && HeldBy(member) != 0;
}

Gpu::Memory Gpu::MemoryHeldBy(VgpuId vgpu) const {
  Memory held;
  for (const Member* member : vgpus_[vgpu].members) {
    const ReportPage::Row& report = member->pages_.report().rows[row_];
    const uint64_t one = HeldBy(*member);
    held.bytes += one;
    uint64_t left = one;
    for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
      if (kind == static_cast<size_t>(MemoryKind::kContexts) && !CountsItsContext(*member)) continue;
      const uint64_t part = std::min(left, report.memory_by_kind[kind].load(std::memory_order_relaxed));
      held.by_kind[kind] += part;
      left -= part;
    }
  }
  const uint64_t contexts = ContextsOfLimit(vgpu);
  held.by_kind[static_cast<size_t>(MemoryKind::kContexts)] += contexts;
  held.bytes += contexts;
  return held;
}

void Gpu::WatchLimits(int64_t now_ns) {
  for (const VgpuId vgpu : time().vgpus()) {
    const VgpuSpec& spec = time().state(vgpu).spec;
    const std::optional<int64_t> had_ns = vgpus_[vgpu].limit_watch.Look(spec.limit, time().ledger().BilledNs(vgpu), now_ns);
    if (!had_ns) continue;
    LogWarning(
        "vGPU {} had GPU {} for {:.1f} s within {} s, {:.1f} s beyond its limit. It is billed, and waits until that is made up "
        "for. Mostly its kernels take longer than the same ones took before",
        spec.name, row_, static_cast<double>(*had_ns) / 1e9, LimitWatch::kWindowNs / kSecondNs,
        (static_cast<double>(*had_ns) - spec.limit * LimitWatch::kWindowNs) / 1e9);
  }
}

// Counts.

void Gpu::CountWork() {
  for (const std::unique_ptr<Member>& member : members_) member->work_.Look(&vgpus_[member->vgpu_].tally.work);
}

void Gpu::CountActive(int64_t now_ns) {
  const int64_t passed_ns = counted_active_ns_ < 0 ? 0 : now_ns - counted_active_ns_;
  counted_active_ns_ = now_ns;
  for (Vgpu& vgpu : vgpus_) {
    bool active = false;
    for (Member* member : vgpu.members) {
      const uint64_t executed = member->pages_.report().executed.load(std::memory_order_relaxed);
      active = active || executed != member->executed_;
      member->executed_ = executed;
    }
    if (active) vgpu.tally.active_ns += passed_ns;
  }
}

int64_t Gpu::InModeNs(GpuMode mode, int64_t now_ns) const {
  const bool lasts = mode == mode_ && mode_since_ns_ >= 0;
  return in_mode_ns_[static_cast<size_t>(mode)] + (lasts ? now_ns - mode_since_ns_ : 0);
}

// Looks and decisions.

void Gpu::Look(Member& member, int64_t now_ns) {
  if (mode_ == GpuMode::kFree || !member.watch_.Look(time_, member.session_, now_ns)) return;
  worked_ns_ = now_ns;
  news_ = true;
}

void Gpu::LookAll(int64_t now_ns) {
  looked_all_ns_ = now_ns;
  for (const std::unique_ptr<Member>& member : members_) Look(*member, now_ns);
}

void Gpu::LookOften(int64_t now_ns, int64_t until_ns) {
  often_until_ns_ = until_ns;
  look_ns_ = std::min(look_ns_, now_ns + kLookNs);
}

void Gpu::Turn(int64_t now_ns) {
  if (mode_since_ns_ < 0) mode_since_ns_ = now_ns;
  if (memory_asked_) AnswerMemoryQuestions();
  if (now_ns >= look_ns_) {
    LookAll(now_ns);
    look_ns_ = now_ns + LookGapNs(now_ns);
  }
  if (news_ || now_ns >= ask_again_ns_) {
    // The books close with each decision: what a worker has begun since the last look would be billed from now on alone.
    if (mode_ == GpuMode::kMetered) LookAll(now_ns);
    DecideAndFollow(now_ns);
  }
}

void Gpu::DecideAndFollow(int64_t now_ns) {
  Decide(now_ns);
  if (mode_ != time().mode()) FollowMode(now_ns);
}

bool Gpu::HasGated(const Member& member, int64_t now_ns) const {
  const int64_t gated_ns = member.watch_.gated_ns();
  return mode_ == GpuMode::kMetered && gated_ns >= 0 && now_ns - gated_ns <= kQuietNs;
}

void Gpu::SetTogether(const Member& member, bool together, int64_t now_ns) {
  if (time().together(member.session_) != together) time_.SetTogether(member.session_, together, now_ns);
}

void Gpu::Carry(const SetOrder& order, int64_t now_ns) {
  switch (order.kind) {
    case SetOrder::Kind::kElsewhere: return time_.SetWaitsElsewhere(order.id, order.at_ns == 1, now_ns);
    case SetOrder::Kind::kAppoint: time_.Appoint(order.id, order.at_ns, now_ns); break;
    case SetOrder::Kind::kGrant: time_.Grant(order.id, order.at_ns, now_ns); break;
  }
  if (mode_ == GpuMode::kMetered && looked_all_ns_ != now_ns) LookAll(now_ns);  // as Turn() does
  DecideAndFollow(now_ns);
}

void Gpu::Decide(int64_t now_ns) {
  news_ = false;
  const GpuTime::Decision decision = time_.Decide(now_ns);
  ask_again_ns_ = std::max(decision.ask_again_ns, now_ns + kAgainMinNs);
  for (const VgpuId vgpu : decision.changed) {
    for (Member* member : vgpus_[vgpu].members) Tell(*member);
  }
  EndOverrun(now_ns);
}

void Gpu::EndOverrun(int64_t now_ns) {
  for (const std::unique_ptr<Member>& member : members_) {
    const VgpuState& vgpu = time().state(member->vgpu_);
    const VgpuSpec& spec = vgpu.spec;
    if (member->ended_ || spec.overrun != Overrun::kEnd || !vgpu.busy()) continue;
    ask_again_ns_ = std::min(ask_again_ns_, now_ns + kOverrunLookNs);
    if (time().OverranNs(member->session_) < overrun_after_ns_) continue;
    LogWarning("a session of vGPU {} is ended: it ran for {:.1f} s beyond its tokens while others waited (overrun = end)",
               spec.name, static_cast<double>(time().OverranNs(member->session_)) / 1e9);
    member->ended_ = true;
    Tell(*member);
  }
}

void Gpu::FollowMode(int64_t now_ns) {
  if (mode_ == GpuMode::kFree) shared_ns_ = now_ns;
  if (mode_since_ns_ >= 0) in_mode_ns_[static_cast<size_t>(mode_)] += now_ns - mode_since_ns_;
  mode_since_ns_ = now_ns;
  mode_ = time().mode();
  worked_ns_ = now_ns;
  look_ns_ = mode_ == GpuMode::kFree ? kNever : now_ns + LookGapNs(now_ns);
  for (const std::unique_ptr<Member>& member : members_) member->watch_.Forget();
  LookAll(now_ns);
  if (mode_ == GpuMode::kMetered) Decide(now_ns);
}

RowWatch::Backlog Gpu::QueuedBefore(VgpuId vgpu, int64_t now_ns) const {
  RowWatch::Backlog all;
  if (mode_ == GpuMode::kFree) return all;
  for (const Member* member : vgpus_[vgpu].members) {
    const RowWatch::Backlog one = member->watch_.QueuedBefore(std::max(shared_ns_, member->came_ns_), now_ns);
    all.took_ns = std::max(all.took_ns, one.took_ns);
    all.runs = all.runs || one.runs;
  }
  return all;
}

int64_t Gpu::LookGapNs(int64_t now_ns) const {
  if (now_ns < often_until_ns_) return kLookNs;
  return mode_ == GpuMode::kArmed && now_ns - worked_ns_ <= kQuietNs ? kLookNs : kQuietLookNs;
}

void Gpu::Tell(Member& member) {
  member.pages_.Tell(row_, member.ended_ ? GateWord{GateMode::kEnded} : WordOf(time().gate(member.vgpu_)));
}

}  // namespace tessera
