#include "scheduler/token_sets.h"

#include <algorithm>

namespace tessera {
namespace {

bool HasPart(const auto& set, size_t gpu, VgpuId vgpu) {
  return std::ranges::any_of(set.parts, [&](const TokenSets::Part& part) { return part.gpu == gpu && part.vgpu == vgpu; });
}

// A GPU that does not give out tokens is everybody's.
bool IsMetered(const GpuTime& gpu) { return gpu.mode() == GpuMode::kMetered; }

int64_t TokenEndNs(const GpuTime& gpu, VgpuId vgpu) { return gpu.holder() == vgpu ? gpu.gate(vgpu).open_until_ns : 0; }

}  // namespace

void TokenSets::Set(uint64_t session, std::span<const Part> parts) {
  if (parts.size() < 2) parts = {};
  if (parts.empty() && !sets_.contains(session)) return;
  Members& set = sets_[session];
  if (std::ranges::equal(set.parts, parts)) return;
  set.parts.assign(parts.begin(), parts.end());
  set.granted = false;
}

void TokenSets::Assemble(std::span<const GpuTime* const> gpus, int64_t now_ns, const Tell& tell) {
  const Round round = {gpus, now_ns, tell};
  for (auto& [session, set] : sets_) {
    NoteFailures(round, set);
    SayWhoWaits(round, set);
  }
  // What is given on one GPU may be what another one waits for.
  bool told = true;
  for (size_t i = 0; told && i <= gpus.size(); ++i) {
    told = false;
    for (size_t gpu = 0; gpu < gpus.size(); ++gpu) told |= gpus[gpu]->offer() && Answer(round, gpu);
  }
}

void TokenSets::SayWhoWaits(const Round& round, const Members& set) {
  const auto waits = [&](const Part& part) { return round.gpus[part.gpu]->Waits(part.session); };
  const bool some_wait = std::ranges::any_of(set.parts, waits);
  for (const Part& part : set.parts) {
    const GpuTime& gpu = *round.gpus[part.gpu];
    const bool elsewhere = some_wait && !waits(part);
    if (gpu.waits_elsewhere(part.session) == elsewhere) continue;
    round.tell({SetOrder::Kind::kElsewhere, part.gpu, part.session, elsewhere});
  }
}

void TokenSets::NoteFailures(const Round& round, Members& set) {
  bool failed = false;
  for (const Part& part : set.parts) {
    const Failures now = {part.vgpu, round.gpus[part.gpu]->state(part.vgpu).sets_failed};
    Failures& before = set.failed.try_emplace(part.gpu, now).first->second;
    failed = failed || (before.vgpu == now.vgpu && now.count > before.count);
    before = now;
  }
  if (!failed) return;
  set.retry_at_ns = round.now_ns + set.retry_ns;
  set.retry_ns = std::min(2 * set.retry_ns, kRetryMaxNs);
  set.granted = false;
}

int64_t TokenSets::AssembledAtNs(const Round& round, const Members& set) {
  int64_t at_ns = round.now_ns;
  for (const Part& part : set.parts) {
    const GpuTime& gpu = *round.gpus[part.gpu];
    if (IsMetered(gpu)) at_ns = std::max(at_ns, gpu.JoinAtNs(part.vgpu, round.now_ns));
  }
  return at_ns;
}

// What becomes of what the GPU offers; whether anything was told.
bool TokenSets::Answer(const Round& round, size_t gpu) {
  const GpuTime::Offer offer = *round.gpus[gpu]->offer();
  Members* first = nullptr;
  int64_t first_ns = kNever;
  for (auto& [session, set] : sets_) {
    if (round.now_ns < set.retry_at_ns || !HasPart(set, gpu, offer.vgpu)) continue;
    const int64_t at_ns = AssembledAtNs(round, set);
    if (at_ns >= first_ns) continue;
    first = &set;
    first_ns = at_ns;
  }
  if (first == nullptr || first_ns - round.now_ns > kPlanMaxNs) return GiveAlone(round, gpu);
  if (first_ns <= round.now_ns) {
    Grant(round, *first);
    return true;
  }
  if (Appoint(round, *first, first_ns)) return true;
  // Nobody else wants the GPU until then, or it has become later.
  return offer.until_ns < first_ns + GpuTime::kAheadMaxNs && GiveAlone(round, gpu);
}

// To one that has work for it; else the GPU is the next one's.
bool TokenSets::GiveAlone(const Round& round, size_t gpu) {
  const GpuTime& time = *round.gpus[gpu];
  const GpuTime::Offer offer = *time.offer();
  if (time.holder() && time.holder() != offer.vgpu) return false;  // it has not come to that
  const bool works = time.holder() == offer.vgpu || time.state(offer.vgpu).wants();
  round.tell({SetOrder::Kind::kGrant, gpu, offer.vgpu, works ? offer.begin_ns + offer.length_ns : 0});
  return true;
}

bool TokenSets::Appoint(const Round& round, const Members& set, int64_t at_ns) {
  bool told = false;
  for (const Part& part : set.parts) {
    const GpuTime& gpu = *round.gpus[part.gpu];
    if (!IsMetered(gpu) || gpu.appointed() == part.vgpu) continue;
    round.tell({SetOrder::Kind::kAppoint, part.gpu, part.vgpu, at_ns});
    told = true;
  }
  return told;
}

void TokenSets::Grant(const Round& round, Members& set) {
  if (set.granted) set.retry_ns = kRetryMinNs;
  set.granted = true;
  int64_t until_ns = kNever;
  for (const Part& part : set.parts) {
    const GpuTime& gpu = *round.gpus[part.gpu];
    if (!IsMetered(gpu)) continue;
    const bool offered = gpu.offer() && gpu.offer()->vgpu == part.vgpu;
    const int64_t length_ns = offered ? gpu.offer()->length_ns : gpu.TokenLengthNs(part.vgpu);
    until_ns = std::min(until_ns, std::max(round.now_ns, TokenEndNs(gpu, part.vgpu)) + length_ns);
  }
  for (const Part& part : set.parts) {
    const GpuTime& gpu = *round.gpus[part.gpu];
    if (!IsMetered(gpu) || TokenEndNs(gpu, part.vgpu) == until_ns) continue;
    round.tell({SetOrder::Kind::kGrant, part.gpu, part.vgpu, until_ns});
  }
}

}  // namespace tessera
