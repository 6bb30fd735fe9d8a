// A worker of a simulated GPU and the program behind it. It launches kernels while its gate is open, and reports what a worker
// reports.
//
// It launches a kernel while the gate is open and its queue is no longer than the rest of the token or 50 ms. Kernels of one
// worker run one after another; Simulate() decides how fast. Times are virtual nanoseconds. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <random>

#include "scheduler/simulate/load.h"
#include "scheduler/vgpu_state.h"

namespace tessera {

class SimulatedWorker {
 public:
  static constexpr int64_t kQueuedNsMax = 50 * kMillisecondNs;

  // `script`: which script of `load` it follows; null: none. Both outlive this object.
  SimulatedWorker(const Load& load, const Load::Script* script, uint64_t seed);

  // Begins the program's next burst if it is due, then launches as much as the gate lets through.
  void Act(int64_t now_ns, const GateState& gate);
  // When Act() will next do something, if the gate stays as it is.
  int64_t ActsAtNs(int64_t now_ns, const GateState& gate) const;
  // Its kernels did `progress_ns` of work. Returns true when one has ended.
  bool Run(int64_t progress_ns);

  // How much work the running kernel has left; 0: none runs.
  int64_t KernelLeftNs() const { return queue_.empty() ? 0 : queue_.front(); }
  int64_t queued_ns() const { return queued_ns_; }
  bool wants() const { return work_left_ns_ > 0 && blocked_; }
  bool busy() const { return !queue_.empty(); }

 private:
  bool MayLaunch(int64_t now_ns, const GateState& gate) const;
  int64_t Drawn(int64_t mean_ns);
  void BeginBurst();
  void Rest(int64_t now_ns);

  const Load* load_;
  const Load::Script* script_;
  std::mt19937_64 random_;
  int64_t next_burst_ns_;     // kNever: a burst is on, or none comes
  int64_t work_left_ns_ = 0;  // of the burst, not launched yet
  int64_t next_kernel_ns_ = 0;
  size_t pieces_ = 0;     // begun
  bool blocked_ = false;  // the next launch waits
  std::deque<int64_t> queue_;
  int64_t queued_ns_ = 0;
};

}  // namespace tessera
