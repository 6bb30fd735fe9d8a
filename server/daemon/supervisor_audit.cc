// What the supervisor does about sessions that use a GPU without reporting it.
#include <signal.h>

#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "server/daemon/supervisor.h"

namespace tessera {

void Supervisor::TakeReported(const ReportedMessage& reported) {
  if (auditor_.on()) auditor_.Hear(reported, RequestToMonitor({}, report_, {.sees_all = true}), monitor_);
}

void Supervisor::TendAudit() {
  for (const Audit::Finding& finding : auditor_.Look()) {
    const auto found =
        std::ranges::find_if(workers_, [&](const auto& entry) { return entry.second.process.session == finding.session; });
    if (found == workers_.end()) continue;
    Worker& worker = found->second;
    LogWarning(
        "session {} of pid {} ({}) uses GPU {} without reporting it: for {} s its kernels had {} % of the time by NVML, "
        "and {} % by its worker, pid {}{}",
        finding.session, worker.client_pid, Printable(worker.hello.program), finding.device, Audit::kSecondsInARow,
        finding.seen_percent, finding.reported_percent, found->first, auditor_.ends_sessions() ? "; it is ended" : "");
    broker_.Found(finding.session, finding.device);
    if (!auditor_.ends_sessions()) continue;
    worker.process.gate.SayEnd(GateEnd::kCaught);
    worker.kill_at_ns = MonotonicNs() + kCaughtWaitNs;
  }
  for (auto& [pid, worker] : workers_) {
    if (MonotonicNs() < worker.kill_at_ns) continue;
    LogWarning("session {} goes on: its worker {} is killed", worker.process.session, pid);
    kill(pid, SIGKILL);
    worker.kill_at_ns = kNoDeadline;
  }
}

}  // namespace tessera
