#include "scheduler/simulate/simulation.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "scheduler/policies/policies.h"
#include "scheduler/simulate/simulated_worker.h"

namespace tessera {
namespace {

constexpr int64_t kLookNs = kMillisecondNs;

// A session: its worker, and what the broker has been told of it.
struct Seat {
  Seat(const Load& load, const Load::Script* script, VgpuId its_vgpu, uint64_t seed)
      : begin_ns(script ? script->begin_ns : load.begin_ns),
        end_ns(script ? script->end_ns : load.end_ns),
        vgpu(its_vgpu),
        worker(load, script, seed) {}
  const int64_t begin_ns, end_ns;
  const VgpuId vgpu;
  SimulatedWorker worker;
  bool here = false;
  SessionId session = 0;
  int64_t asleep_until_ns = 0;  // it was woken, and is not up yet
  bool worked = false;          // since the last look
  // Told, if in metered mode.
  bool wants = false;
  bool busy = false;
  int64_t queued_ns = 0;
};

// On its way to the broker.
struct Report {
  int64_t heard_ns;
  int64_t at_ns;
  Seat* seat;
  SessionId session;
  bool wants, busy;
  int64_t queued_ns;
};

class Run {
 public:
  Run(const SimulationOptions& options, std::unique_ptr<Policy> policy, const TracedGpuTime::Sink& sink)
      : options_(options), time_(options.rules, std::move(policy), sink) {}

  Status Add(const std::vector<Load>& loads) {
    uint64_t seed = options_.seed;
    for (const Load& load : loads) {
      Result<VgpuId> vgpu = time_.AddVgpu(load.spec, 0);
      if (!vgpu.ok()) return vgpu.status();
      vgpus_.push_back(*vgpu);
      for (const Load::Script& script : load.scripts) seats_.push_back(std::make_unique<Seat>(load, &script, *vgpu, ++seed));
      if (!load.scripts.empty()) continue;
      for (uint32_t i = 0; i < load.sessions; ++i) seats_.push_back(std::make_unique<Seat>(load, nullptr, *vgpu, ++seed));
    }
    return Status::Ok();
  }

  Status Go() {
    while (true) {
      ComeAndGo();
      RETURN_IF_ERROR(ChangeSpecs());
      // The broker hears what is due, and answers; what it answers is seen before time goes on.
      Hear();
      if (now_ns_ >= ask_again_ns_ || decide_) Decide();
      bool acted = false;
      for (const auto& seat : seats_) acted |= Act(*seat);
      if (acted && options_.report_ns == 0) continue;
      const int64_t next_ns = NextNs();
      if (next_ns >= options_.duration_ns) break;
      RunUntil(next_ns);
    }
    now_ns_ = options_.duration_ns;
    for (const auto& seat : seats_) {
      if (seat->here) time_.SessionLeft(seat->session, now_ns_);
    }
    return Status::Ok();
  }

 private:
  GateState Gate(const Seat& seat) const { return time_.time().gate(seat.vgpu); }

  void ComeAndGo() {
    for (const auto& seat : seats_) {
      if (!seat->here && now_ns_ >= seat->begin_ns && now_ns_ < seat->end_ns) {
        seat->session = time_.SessionCame(seat->vgpu, now_ns_);
        seat->here = decide_ = true;
      } else if (seat->here && now_ns_ >= seat->end_ns) {
        time_.SessionLeft(seat->session, now_ns_);
        seat->here = false;
        decide_ = true;
      }
    }
  }

  Status ChangeSpecs() {
    for (; changed_ < options_.changes.size() && options_.changes[changed_].at_ns <= now_ns_; ++changed_) {
      const SpecChange& change = options_.changes[changed_];
      RETURN_IF_ERROR(time_.ChangeSpec(vgpus_[change.load], change.spec, now_ns_));
      decide_ = true;
    }
    return Status::Ok();
  }

  void Hear() {
    while (!reports_.empty() && reports_.front().heard_ns <= now_ns_) {
      const Report report = reports_.front();
      reports_.pop_front();
      if (!report.seat->here || report.session != report.seat->session) continue;
      if (report.queued_ns > 0) time_.SetQueued(report.session, report.queued_ns, report.at_ns);
      time_.SetBusy(report.session, report.busy, report.at_ns);
      time_.SetWants(report.session, report.wants, report.at_ns);
      decide_ = true;
    }
    if (time_.time().mode() == GpuMode::kMetered || now_ns_ < look_ns_) return;
    look_ns_ = now_ns_ + kLookNs;
    for (const auto& seat : seats_) {
      if (!seat->here || !seat->worked) continue;
      seat->worked = false;
      time_.Worked(seat->session, now_ns_);
      decide_ = true;
    }
  }

  void Decide() {
    decide_ = false;
    std::vector<GateState> before;
    for (const auto& seat : seats_) before.push_back(Gate(*seat));
    const GpuTime::Decision decision = time_.Decide(now_ns_);
    ask_again_ns_ = decision.ask_again_ns;
    for (size_t i = 0; i < seats_.size(); ++i) {
      Seat& seat = *seats_[i];
      const GateState gate = Gate(seat);
      const bool opens = gate.open_until_ns > now_ns_ && before[i].open_until_ns <= now_ns_;
      if (opens && seat.worker.wants()) seat.asleep_until_ns = now_ns_ + (before[i].next ? options_.spin_ns : options_.wake_ns);
      // It begins to report, with what holds; or stops, and nothing of it holds any more.
      if (gate.mode != before[i].mode) seat.wants = seat.busy = false;
    }
  }

  // True when there is something new to report.
  bool Act(Seat& seat) {
    if (!seat.here || now_ns_ < seat.asleep_until_ns) return false;
    const GateState gate = Gate(seat);
    seat.worker.Act(now_ns_, gate);
    seat.worked |= seat.worker.busy();
    if (gate.mode != GpuMode::kMetered) return false;
    if (seat.worker.wants() == seat.wants && seat.worker.busy() == seat.busy) return false;
    seat.wants = seat.worker.wants();
    seat.busy = seat.worker.busy();
    reports_.push_back(
        {now_ns_ + options_.report_ns, now_ns_, &seat, seat.session, seat.wants, seat.busy, seat.worker.queued_ns()});
    return true;
  }

  int64_t NextNs() const {
    int64_t next_ns = ask_again_ns_;
    if (changed_ < options_.changes.size()) next_ns = std::min(next_ns, options_.changes[changed_].at_ns);
    if (!reports_.empty()) next_ns = std::min(next_ns, reports_.front().heard_ns);
    if (time_.time().mode() != GpuMode::kMetered) next_ns = std::min(next_ns, look_ns_);
    int64_t running = 0, least_ns = kNever;
    for (const auto& seat : seats_) {
      if (!seat->here) {
        if (now_ns_ < seat->begin_ns) next_ns = std::min(next_ns, seat->begin_ns);
        continue;
      }
      next_ns = std::min(next_ns, seat->end_ns);
      const int64_t acts_ns = seat->worker.ActsAtNs(now_ns_, Gate(*seat));
      if (acts_ns != kNever) next_ns = std::min(next_ns, std::max(acts_ns, seat->asleep_until_ns));
      if (!seat->worker.busy()) continue;
      ++running;
      least_ns = std::min(least_ns, seat->worker.KernelLeftNs());
    }
    if (running > 0) next_ns = std::min(next_ns, now_ns_ + least_ns * running);
    return std::max(next_ns, now_ns_ + (reports_.empty() ? 1 : 0));
  }

  void RunUntil(int64_t until_ns) {
    int64_t running = 0;
    for (const auto& seat : seats_) running += seat->here && seat->worker.busy();
    const int64_t passed_ns = until_ns - now_ns_;
    now_ns_ = until_ns;
    if (running == 0) return;
    for (const auto& seat : seats_) {
      if (seat->here && seat->worker.busy()) seat->worker.Run((passed_ns + running - 1) / running);
    }
  }

  const SimulationOptions& options_;
  TracedGpuTime time_;
  std::vector<VgpuId> vgpus_;  // of each load
  std::vector<std::unique_ptr<Seat>> seats_;
  std::deque<Report> reports_;
  int64_t now_ns_ = 0;
  int64_t ask_again_ns_ = 0;
  int64_t look_ns_ = 0;
  size_t changed_ = 0;  // of options_.changes, those that are made
  bool decide_ = true;
};

}  // namespace

Status Simulate(const SimulationOptions& options, const std::vector<Load>& loads, const TracedGpuTime::Sink& sink) {
  Result<std::unique_ptr<Policy>> policy = MakePolicy(options.policy);
  if (!policy.ok()) return policy.status();
  Run run(options, std::move(policy).value(), sink);
  RETURN_IF_ERROR(run.Add(loads));
  return run.Go();
}

}  // namespace tessera
