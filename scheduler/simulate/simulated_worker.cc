#include "scheduler/simulate/simulated_worker.h"

#include <algorithm>
#include <cmath>

namespace tessera {

SimulatedWorker::SimulatedWorker(const Load& load, const Load::Script* script, uint64_t seed)
    : load_(&load), script_(script), random_(seed), next_burst_ns_(load.begin_ns) {
  if (script_ != nullptr) Rest(script_->begin_ns);
}

void SimulatedWorker::Act(int64_t now_ns, const GateState& gate) {
  if (next_burst_ns_ <= now_ns) BeginBurst();
  while (work_left_ns_ > 0 && MayLaunch(now_ns, gate)) {
    queue_.push_back(next_kernel_ns_);
    queued_ns_ += next_kernel_ns_;
    if (work_left_ns_ != kNever) work_left_ns_ -= next_kernel_ns_;
    next_kernel_ns_ = std::min(Drawn(load_->kernel_ns), work_left_ns_);
  }
  blocked_ = work_left_ns_ > 0 && now_ns >= gate.open_until_ns;
  if (work_left_ns_ == 0 && !busy() && next_burst_ns_ == kNever) Rest(now_ns);
}

int64_t SimulatedWorker::ActsAtNs(int64_t now_ns, const GateState& gate) const {
  if (work_left_ns_ == 0) return busy() ? kNever : next_burst_ns_;
  if (MayLaunch(now_ns, gate)) return now_ns;
  return now_ns < gate.open_until_ns ? gate.open_until_ns : kNever;
}

bool SimulatedWorker::Run(int64_t progress_ns) {
  progress_ns = std::min(progress_ns, queue_.front());
  queue_.front() -= progress_ns;
  queued_ns_ -= progress_ns;
  if (queue_.front() > 0) return false;
  queue_.pop_front();
  return true;
}

bool SimulatedWorker::MayLaunch(int64_t now_ns, const GateState& gate) const {
  if (now_ns >= gate.open_until_ns) return false;
  const bool metered = gate.mode == GpuMode::kMetered;
  const int64_t most_ns = metered ? std::min(kQueuedNsMax, gate.open_until_ns - now_ns) : kQueuedNsMax;
  return queue_.empty() || queued_ns_ + next_kernel_ns_ <= most_ns;
}

int64_t SimulatedWorker::Drawn(int64_t mean_ns) {
  if (!load_->chance || mean_ns == 0) return mean_ns;
  const double evenly = static_cast<double>(random_() >> 11) * 0x1p-53;
  return std::max<int64_t>(1000, static_cast<int64_t>(-std::log1p(-evenly) * static_cast<double>(mean_ns)));
}

// The burst is done, or none has begun.
void SimulatedWorker::Rest(int64_t now_ns) {
  if (script_ == nullptr) {
    next_burst_ns_ = now_ns + Drawn(load_->rest_ns);
  } else {
    next_burst_ns_ = pieces_ < script_->pieces.size() ? now_ns + script_->pieces[pieces_].rest_ns : kNever;
  }
}

void SimulatedWorker::BeginBurst() {
  next_burst_ns_ = kNever;
  if (script_ == nullptr) {
    work_left_ns_ = load_->burst_ns == 0 ? kNever : Drawn(load_->burst_ns);
  } else {
    work_left_ns_ = script_->pieces[pieces_++].work_ns;
  }
  next_kernel_ns_ = std::min(Drawn(load_->kernel_ns), work_left_ns_);
}

}  // namespace tessera
