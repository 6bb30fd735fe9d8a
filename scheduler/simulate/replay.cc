#include "scheduler/simulate/replay.h"

#include <fmt/core.h>

#include <map>
#include <utility>

#include "scheduler/policies/policies.h"
#include "scheduler/simulate/traced_gpu_time.h"

namespace tessera {
namespace {

// Applies the events of a trace one after another, having looked whether a broker can have said that.
class Player {
 public:
  Player(const SchedulerTrace& trace, std::unique_ptr<Policy> policy)
      : time_({.request_zero = trace.request_zero}, std::move(policy), [this](const SchedulerEvent& event) { Heard(event); }) {}

  // A sentence without the line's number.
  Status Play(const SchedulerEvent& event) {
    if (event.kind != TraceKind::kGate && next_answer_ < answers_.size()) Differs("a gate that was not recorded");
    switch (event.kind) {
      case TraceKind::kVgpu: return AddVgpu(event);
      case TraceKind::kSpec:
        if (!vgpus_.contains(event.id)) return Unknown("vGPU", event.id);
        return time_.ChangeSpec(event.id, event.spec, event.at_ns);
      case TraceKind::kGone: return RemoveVgpu(event);
      case TraceKind::kCame: return Come(event);
      case TraceKind::kAppoint:
      case TraceKind::kGrant: return Gather(event);
      case TraceKind::kDecide: return Decide(event);
      case TraceKind::kGate: return Compare(event);
      default: return Report(event);
    }
  }
  // Why the last answer is not the recorded one.
  std::optional<std::string> TakeDifference() { return std::exchange(difference_, std::nullopt); }
  Timeline Finish() { return builder_.Finish(); }

 private:
  static Status Unknown(std::string_view what, uint32_t id) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{} {} is not there", what, id));
  }

  void Heard(const SchedulerEvent& event) {
    builder_.Add(event);
    if (event.kind == TraceKind::kGate) answers_.push_back(event);
  }
  void Differs(std::string why) {
    if (!difference_) difference_ = std::move(why);
  }

  Status AddVgpu(const SchedulerEvent& event) {
    const Result<VgpuId> vgpu = time_.AddVgpu(event.spec, event.at_ns);
    if (!vgpu.ok()) return vgpu.status();
    vgpus_.emplace(vgpu.value(), 0);
    if (vgpu.value() == event.id) return Status::Ok();
    return Status(StatusCode::kInvalidArgument, fmt::format("vGPU {} has the number {}", event.id, vgpu.value()));
  }

  Status RemoveVgpu(const SchedulerEvent& event) {
    if (!vgpus_.contains(event.id)) return Unknown("vGPU", event.id);
    if (vgpus_[event.id] > 0) return Status(StatusCode::kInvalidArgument, fmt::format("vGPU {} has sessions", event.id));
    time_.RemoveVgpu(event.id, event.at_ns);
    vgpus_.erase(event.id);
    return Status::Ok();
  }

  Status Come(const SchedulerEvent& event) {
    const auto vgpu = static_cast<VgpuId>(event.value);
    if (!vgpus_.contains(vgpu)) return Unknown("vGPU", vgpu);
    const SessionId session = time_.SessionCame(vgpu, event.at_ns);
    ++vgpus_[vgpu];
    sessions_[session] = vgpu;
    if (session == event.id) return Status::Ok();
    return Status(StatusCode::kInvalidArgument, fmt::format("session {} has the number {}", event.id, session));
  }

  // Of a set of tokens.
  Status Gather(const SchedulerEvent& event) {
    if (!vgpus_.contains(event.id)) return Unknown("vGPU", event.id);
    if (event.kind == TraceKind::kAppoint) {
      time_.Appoint(event.id, event.value, event.at_ns);
    } else {
      time_.Grant(event.id, event.value, event.at_ns);
    }
    return Status::Ok();
  }

  Status Decide(const SchedulerEvent& event) {
    if (event.at_ns < decided_ns_)
      return Status(StatusCode::kInvalidArgument, fmt::format("time goes back from {}", decided_ns_));
    decided_ns_ = event.at_ns;
    answers_.clear();
    next_answer_ = 0;
    time_.Decide(event.at_ns);
    return Status::Ok();
  }

  Status Compare(const SchedulerEvent& event) {
    if (next_answer_ >= answers_.size()) {
      Differs("no gate changes here");
    } else if (const SchedulerEvent& answer = answers_[next_answer_++]; answer != event) {
      std::string line = FormatTraceEvent(answer);
      line.pop_back();
      Differs(fmt::format("the answer is '{}'", line));
    }
    return Status::Ok();
  }

  // Of a session.
  Status Report(const SchedulerEvent& event) {
    const auto session = sessions_.find(event.id);
    if (session == sessions_.end()) return Unknown("session", event.id);
    switch (event.kind) {
      case TraceKind::kLeft:
        time_.SessionLeft(event.id, event.at_ns);
        --vgpus_[session->second];
        sessions_.erase(session);
        break;
      case TraceKind::kWants: time_.SetWants(event.id, event.value == 1, event.at_ns); break;
      case TraceKind::kBusy: time_.SetBusy(event.id, event.value == 1, event.at_ns); break;
      case TraceKind::kTogether: time_.SetTogether(event.id, event.value == 1, event.at_ns); break;
      case TraceKind::kElsewhere: time_.SetWaitsElsewhere(event.id, event.value == 1, event.at_ns); break;
      case TraceKind::kQueued: time_.SetQueued(event.id, event.value, event.at_ns); break;
      default: time_.Worked(event.id, event.at_ns);
    }
    return Status::Ok();
  }

  TracedGpuTime time_;
  TimelineBuilder builder_;
  std::map<VgpuId, uint32_t> vgpus_;  // and how many sessions each has
  std::map<SessionId, VgpuId> sessions_;
  std::vector<SchedulerEvent> answers_;  // to the last decision
  size_t next_answer_ = 0;               // to be compared
  int64_t decided_ns_ = 0;
  std::optional<std::string> difference_;
};

}  // namespace

Result<Replayed> Replay(const SchedulerTrace& trace) {
  Result<std::unique_ptr<Policy>> policy = MakePolicy(trace.policy);
  if (!policy.ok()) return policy.status();
  Player player(trace, std::move(policy).value());
  Replayed replayed;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Status played = player.Play(trace.events[i]);
    if (!played.ok()) return Status(StatusCode::kInvalidArgument, fmt::format("line {}: {}", trace.lines[i], played.message()));
    const std::optional<std::string> difference = player.TakeDifference();
    if (difference && !replayed.difference) replayed.difference = fmt::format("line {}: {}", trace.lines[i], *difference);
  }
  replayed.timeline = player.Finish();
  return replayed;
}

}  // namespace tessera
