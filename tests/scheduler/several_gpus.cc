#include "tests/scheduler/several_gpus.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/policies/policies.h"

namespace tessera {
namespace {

bool HasGpu(const std::vector<TokenSets::Part>& parts, size_t gpu) {
  return std::ranges::any_of(parts, [&](const TokenSets::Part& part) { return part.gpu == gpu; });
}

}  // namespace

SeveralGpus::SeveralGpus(size_t gpus, bool sets, std::string_view policy) : sets_(sets), gpus_(gpus) {
  for (Gpu& gpu : gpus_) {
    gpu.record = FormatTraceHead(policy, true);
    gpu.time = std::make_unique<TracedGpuTime>(AdmissionRules(), std::move(MakePolicy(policy)).value(),
                                               [&gpu](const SchedulerEvent& event) { gpu.record += FormatTraceEvent(event); });
  }
}

void SeveralGpus::Add(const Program& program) {
  Running& each = *programs_.emplace_back(std::make_unique<Running>());
  each.program = program;
  each.rests_until_ns = each.began_ns = std::max(program.begin_ns, now_ns_);
  each.lanes.resize(gpus_.size());
  for (const Launch& launch : program.steps) each.lanes[launch.gpu].used = true;
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    if (!each.lanes[gpu].used) continue;
    TracedGpuTime& time = *gpus_[gpu].time;
    const Result<VgpuId> vgpu = time.AddVgpu(
        {.name = program.name, .request = program.request, .limit = program.limit, .priority = program.priority}, now_ns_);
    ASSERT_TRUE(vgpu.ok()) << vgpu.status().message();
    each.lanes[gpu].vgpu = vgpu.value();
    each.lanes[gpu].session = time.SessionCame(vgpu.value(), now_ns_);
  }
  SetParts(programs_.size() - 1, gpus_.size());
}

void SeveralGpus::SetParts(size_t program, size_t count) {
  const Running& each = *programs_[program];
  std::vector<TokenSets::Part> parts;
  for (size_t gpu = 0; gpu < gpus_.size() && parts.size() < count; ++gpu) {
    if (each.lanes[gpu].used) parts.push_back({gpu, each.lanes[gpu].vgpu, each.lanes[gpu].session});
  }
  if (!sets_) return;
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    const Lane& lane = each.lanes[gpu];
    const bool together = parts.size() >= 2 && HasGpu(parts, gpu);
    TracedGpuTime& time = *gpus_[gpu].time;
    if (lane.used && time.time().together(lane.session) != together) time.SetTogether(lane.session, together, now_ns_);
  }
  token_sets_.Set(program + 1, parts);
}

void SeveralGpus::RunFor(int64_t length_ns) {
  for (const int64_t end_ns = now_ns_ + length_ns; now_ns_ < end_ns; now_ns_ += kStepNs) {
    for (size_t i = 0; i < programs_.size(); ++i) {
      const Program& program = programs_[i]->program;
      if (program.set_changes_ns == 0 || now_ns_ % program.set_changes_ns != 0) continue;
      SetParts(i, now_ns_ / program.set_changes_ns % 2 == 0 ? gpus_.size() : program.set_gpus);
    }
    for (const auto& each : programs_) Act(*each);
    for (const auto& each : programs_) Report(*each);
    Answer();
    for (const auto& each : programs_) Act(*each);  // what a token lets in does not wait for the next moment
    SeeIdle();
    for (const auto& each : programs_) Work(*each);
  }
}

SeveralGpus::Figures SeveralGpus::figures(size_t program) const {
  const Running& each = *programs_[program];
  Figures figures = {each.steps, each.last_step_ns, std::max(each.longest_step_ns, now_ns_ - each.began_ns)};
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    const Lane& lane = each.lanes[gpu];
    const GpuTime& time = gpus_[gpu].time->time();
    figures.billed_ns.push_back(lane.used ? time.ledger().BilledNs(lane.vgpu) : 0);
    figures.charged_ns.push_back(lane.used ? time.state(lane.vgpu).idled_ns : 0);
  }
  return figures;
}

bool SeveralGpus::MayLaunch(const Lane& lane, const Launch& launch) const {
  const GateState& gate = gpus_[launch.gpu].time->time().gate(lane.vgpu);
  if (now_ns_ >= gate.open_until_ns) return false;
  int64_t queued_ns = launch.kernel_ns;
  for (const int64_t kernel_ns : lane.queue) queued_ns += kernel_ns;
  return lane.queue.empty() || queued_ns <= std::min(gate.open_until_ns - now_ns_, 50 * kMillisecondNs);
}

// The program and its worker's executor.
void SeveralGpus::Act(Running& each) {
  const bool idle = std::ranges::all_of(each.lanes, [](const Lane& lane) { return lane.queue.empty(); });
  if (each.next == each.program.steps.size() && idle) {
    if (each.began_ns >= kSecondNs) each.longest_step_ns = std::max(each.longest_step_ns, now_ns_ - each.began_ns);
    each.began_ns = each.last_step_ns = now_ns_;
    ++each.steps;
    each.next = 0;
    each.rests_until_ns = now_ns_ + each.program.rest_ns;
  }
  for (Lane& lane : each.lanes) {
    lane.wants = false;
    if (idle) lane.busy = false;
  }
  while (now_ns_ >= each.rests_until_ns && each.next < each.program.steps.size()) {
    const Launch& launch = each.program.steps[each.next];
    Lane& lane = each.lanes[launch.gpu];
    if (now_ns_ >= each.program.end_ns) break;
    if (each.program.one_after_another && std::ranges::any_of(each.lanes, &Lane::Queued)) break;
    if (!MayLaunch(lane, launch)) {
      lane.wants = true;
      break;
    }
    lane.queue.push_back(launch.kernel_ns);
    lane.busy = true;
    ++each.next;
  }
}

int64_t SeveralGpus::BusyOn(size_t gpu) const {
  return std::ranges::count_if(programs_, [&](const auto& each) { return !each->lanes[gpu].queue.empty(); });
}

void SeveralGpus::Work(Running& each) {
  int64_t least_ns = kStepNs;
  bool all_run = true;
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    if (!each.lanes[gpu].used) continue;
    all_run &= !each.lanes[gpu].queue.empty();
    least_ns = std::min(least_ns, kStepNs / std::max<int64_t>(1, BusyOn(gpu)));
  }
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    Lane& lane = each.lanes[gpu];
    if (lane.queue.empty() || (each.program.collective && !all_run)) continue;
    lane.queue.front() -= each.program.collective ? least_ns : kStepNs / BusyOn(gpu);
  }
  for (Lane& lane : each.lanes) {
    if (!lane.queue.empty() && lane.queue.front() <= 0) lane.queue.pop_front();
  }
}

void SeveralGpus::Report(Running& each) {
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    Lane& lane = each.lanes[gpu];
    if (!lane.used) continue;
    TracedGpuTime& time = *gpus_[gpu].time;
    if (time.time().mode() != GpuMode::kMetered) {
      if (lane.busy || lane.wants) time.Worked(lane.session, now_ns_);
      gpus_[gpu].news |= lane.busy;
      lane.told_wants = lane.told_busy = false;
      continue;
    }
    if (lane.busy == lane.told_busy && lane.wants == lane.told_wants) continue;
    int64_t queued_ns = 0;
    for (const int64_t kernel_ns : lane.queue) queued_ns += kernel_ns;
    if (lane.wants) time.SetWants(lane.session, true, now_ns_);
    time.SetBusy(lane.session, lane.busy, now_ns_);
    if (lane.busy) time.SetQueued(lane.session, queued_ns, now_ns_);
    if (!lane.wants) time.SetWants(lane.session, false, now_ns_);
    lane.told_busy = lane.busy;
    lane.told_wants = lane.wants;
    gpus_[gpu].news = true;
  }
}

// The broker.

void SeveralGpus::Decide(size_t gpu) {
  gpus_[gpu].news = false;
  gpus_[gpu].ask_again_ns = gpus_[gpu].time->Decide(now_ns_).ask_again_ns;
}

void SeveralGpus::Carry(const SetOrder& order) {
  orders_ += order.kind != SetOrder::Kind::kElsewhere;
  TracedGpuTime& time = *gpus_[order.gpu].time;
  if (order.kind == SetOrder::Kind::kElsewhere) return time.SetWaitsElsewhere(order.id, order.at_ns == 1, now_ns_);
  if (order.kind == SetOrder::Kind::kAppoint) {
    time.Appoint(order.id, order.at_ns, now_ns_);
  } else {
    time.Grant(order.id, order.at_ns, now_ns_);
  }
  Decide(order.gpu);
}

void SeveralGpus::Answer() {
  bool decided = false;
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    if (!gpus_[gpu].news && now_ns_ < gpus_[gpu].ask_again_ns) continue;
    Decide(gpu);
    decided = true;
  }
  if (!decided || !sets_) return;
  std::vector<const GpuTime*> times;
  for (const Gpu& gpu : gpus_) times.push_back(&gpu.time->time());
  token_sets_.Assemble(times, now_ns_, [this](const SetOrder& order) { Carry(order); });
}

void SeveralGpus::SeeIdle() {
  for (size_t i = 0; i < gpus_.size(); ++i) {
    Gpu& gpu = gpus_[i];
    const GpuTime& time = gpu.time->time();
    const std::optional<VgpuId> had_by = time.holder()  ? time.holder()
                                         : time.offer() ? std::optional(time.offer()->vgpu)
                                                        : std::nullopt;
    const bool waited_for = std::ranges::any_of(programs_, [&](const auto& each) {
      return each->lanes[i].wants && each->lanes[i].vgpu != had_by && each->program.limit >= 1;
    });
    const bool busy = std::ranges::any_of(programs_, [&](const auto& each) { return each->lanes[i].busy; });
    const bool idle = waited_for && !busy && time.mode() == GpuMode::kMetered;
    if (!idle) gpu.idle_since_ns = -1;
    if (!idle) continue;
    if (gpu.idle_since_ns < 0) gpu.idle_since_ns = now_ns_;
    gpu.idle_ns += kStepNs;
    gpu.held_ns += time.offer() && time.offer()->until_ns != kNever ? kStepNs : 0;
    gpu.longest_idle_ns = std::max(gpu.longest_idle_ns, now_ns_ + kStepNs - gpu.idle_since_ns);
  }
}

}  // namespace tessera
