// A GpuTime that reports each event and each answer. A broker's --record and a simulation write these down.
#pragma once

#include <functional>
#include <memory>

#include "scheduler/gpu_time.h"
#include "scheduler/simulate/trace.h"

namespace tessera {

// Each function calls GpuTime's function of that name, then tells `sink`, on the calling thread. One thread.
class TracedGpuTime {
 public:
  using Sink = std::function<void(const SchedulerEvent&)>;
  TracedGpuTime(const AdmissionRules& rules, std::unique_ptr<Policy> policy, Sink sink)
      : time_(rules, std::move(policy)), sink_(std::move(sink)) {}

  Result<VgpuId> AddVgpu(const VgpuSpec& spec, int64_t now_ns);
  Status ChangeSpec(VgpuId vgpu, const VgpuSpec& spec, int64_t now_ns);
  void RemoveVgpu(VgpuId vgpu, int64_t now_ns);
  SessionId SessionCame(VgpuId vgpu, int64_t now_ns);
  void SessionLeft(SessionId session, int64_t now_ns);
  void SetWants(SessionId session, bool wants, int64_t at_ns);
  void SetBusy(SessionId session, bool busy, int64_t at_ns);  // BusyBegan, BusyEnded
  void SetQueued(SessionId session, int64_t estimate_ns, int64_t at_ns);
  void Worked(SessionId session, int64_t at_ns);
  void SetTogether(SessionId session, bool together, int64_t now_ns);
  void SetWaitsElsewhere(SessionId session, bool waits, int64_t now_ns);
  void Appoint(VgpuId vgpu, int64_t at_ns, int64_t now_ns);
  void Grant(VgpuId vgpu, int64_t until_ns, int64_t now_ns);
  GpuTime::Decision Decide(int64_t now_ns);

  const GpuTime& time() const { return time_; }

 private:
  GpuTime time_;
  const Sink sink_;
};

}  // namespace tessera
