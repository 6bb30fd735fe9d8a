#include "scheduler/simulate/timeline.h"

#include <algorithm>

namespace tessera {

std::vector<Interval> Joined(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
  std::vector<Interval> joined;
  for (const Interval& each : intervals) {
    if (each.end_ns <= each.begin_ns) continue;
    if (!joined.empty() && each.begin_ns <= joined.back().end_ns) {
      joined.back().end_ns = std::max(joined.back().end_ns, each.end_ns);
    } else {
      joined.push_back(each);
    }
  }
  return joined;
}

void TimelineBuilder::Add(const SchedulerEvent& event) {
  if (!began_) timeline_.begin_ns = event.at_ns;
  began_ = true;
  timeline_.end_ns = std::max(timeline_.end_ns, event.at_ns);
  const auto lane_of = [&](uint32_t vgpu) { return lane_of_vgpu_.at(vgpu); };
  switch (event.kind) {
    case TraceKind::kVgpu:
      lane_of_vgpu_[event.id] = timeline_.lanes.size();
      timeline_.lanes.push_back({.spec = event.spec, .came_ns = event.at_ns});
      open_.emplace_back();
      break;
    case TraceKind::kSpec: timeline_.lanes[lane_of(event.id)].spec = event.spec; break;
    case TraceKind::kGone:
      SetGate(lane_of(event.id), {.mode = GpuMode::kMetered, .open_until_ns = 0}, event.at_ns);
      lane_of_vgpu_.erase(event.id);
      break;
    case TraceKind::kCame: sessions_[event.id] = {.lane = lane_of(static_cast<uint32_t>(event.value))}; break;
    case TraceKind::kLeft:
      EndSession(sessions_.at(event.id), event.at_ns);
      sessions_.erase(event.id);
      break;
    case TraceKind::kWants: SetWants(sessions_.at(event.id), event.value == 1, event.at_ns); break;
    case TraceKind::kBusy: SetBusy(sessions_.at(event.id), event.value == 1, event.at_ns); break;
    case TraceKind::kQueued:
    case TraceKind::kWorked:
    case TraceKind::kTogether:
    case TraceKind::kElsewhere:
    case TraceKind::kAppoint:
    case TraceKind::kGrant: break;
    case TraceKind::kDecide: ++timeline_.decisions; break;
    case TraceKind::kGate: SetGate(lane_of(event.id), event.gate, event.at_ns); break;
  }
}

void TimelineBuilder::EndSession(Session& session, int64_t at_ns) {
  SetWants(session, false, at_ns);
  SetBusy(session, false, at_ns);
}

void TimelineBuilder::SetWants(Session& session, bool wants, int64_t at_ns) {
  if (wants == (session.wants_since_ns >= 0)) return;
  Open& open = open_[session.lane];
  if (wants) {
    session.wants_since_ns = at_ns;
    if (open.wanting++ == 0 && (open.token_since_ns < 0 || open.token_until_ns <= at_ns)) open.waits_since_ns = at_ns;
    return;
  }
  timeline_.lanes[session.lane].wanted.push_back({session.wants_since_ns, at_ns});
  session.wants_since_ns = -1;
  if (--open.wanting == 0) EndWait(session.lane, at_ns);
}

void TimelineBuilder::SetBusy(Session& session, bool busy, int64_t at_ns) {
  if (busy == (session.busy_since_ns >= 0)) return;
  if (busy) {
    session.busy_since_ns = at_ns;
    return;
  }
  timeline_.lanes[session.lane].ran.push_back({session.busy_since_ns, at_ns});
  session.busy_since_ns = -1;
}

void TimelineBuilder::SetGate(size_t lane, const GateState& gate, int64_t at_ns) {
  Open& open = open_[lane];
  const bool token = gate.mode == GpuMode::kMetered && gate.open_until_ns > at_ns;
  if (open.token_since_ns >= 0) {
    timeline_.lanes[lane].tokens.push_back({open.token_since_ns, std::min(at_ns, open.token_until_ns)});
    open.token_since_ns = -1;
  }
  if (token) {
    open.token_since_ns = at_ns;
    open.token_until_ns = gate.open_until_ns;
  }
  if (token || gate.mode != GpuMode::kMetered) {
    EndWait(lane, at_ns);
  } else if (open.wanting > 0 && open.waits_since_ns < 0) {
    open.waits_since_ns = at_ns;
  }
}

void TimelineBuilder::EndWait(size_t lane, int64_t at_ns) {
  Open& open = open_[lane];
  if (open.waits_since_ns >= 0) timeline_.lanes[lane].waits_ns.push_back(std::max<int64_t>(0, at_ns - open.waits_since_ns));
  open.waits_since_ns = -1;
}

Timeline TimelineBuilder::Finish() {
  for (auto& [id, session] : sessions_) EndSession(session, timeline_.end_ns);
  for (size_t lane = 0; lane < timeline_.lanes.size(); ++lane) {
    SetGate(lane, {.mode = GpuMode::kMetered, .open_until_ns = 0}, timeline_.end_ns);
    TimelineLane& each = timeline_.lanes[lane];
    each.ran = Joined(std::move(each.ran));
    each.tokens = Joined(std::move(each.tokens));
    each.wanted.insert(each.wanted.end(), each.ran.begin(), each.ran.end());
    each.wanted = Joined(std::move(each.wanted));
  }
  return std::move(timeline_);
}

}  // namespace tessera
