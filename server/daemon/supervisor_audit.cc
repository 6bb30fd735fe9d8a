// What the supervisor does about sessions that use a GPU, or more of its memory, without reporting it.
#include <signal.h>

#include <algorithm>
#include <map>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "server/daemon/supervisor.h"

namespace tessera {

void Supervisor::TakeReported(const ReportedMessage& reported) {
  if (!auditor_.on()) return;
  std::map<uint64_t, const GateMemory*> pages;
  for (const auto& [pid, worker] : workers_) pages[worker.process.session] = &worker.process.gate;
  const auto ask = [&](uint64_t session, uint32_t row) {
    const auto found = pages.find(session);
    return found == pages.end() ? AuditedWorker() : found->second->Audited(row);
  };
  auditor_.Hear(reported, ask, RequestToMonitor({}, report_, {.sees_all = true}), monitor_);
}

void Supervisor::TendAudit() {
  const Auditor::Findings findings = auditor_.Look();
  const auto worker_of = [&](uint64_t session) {
    return std::ranges::find_if(workers_, [&](const auto& entry) { return entry.second.process.session == session; });
  };
  const auto end = [](Worker& worker, GateEnd why) {
    worker.process.gate.SayEnd(why);
    worker.kill_at_ns = MonotonicNs() + kCaughtWaitNs;
  };
  if (findings.seen) broker_.Seen(*findings.seen);
  for (const MemoryAudit::Finding& finding : findings.memory) {
    const auto found = worker_of(finding.session);
    if (found == workers_.end()) continue;
    Worker& worker = found->second;
    const bool ends = auditor_.ends_sessions() && finding.is_sure;
    LogWarning(
        "session {} of pid {} ({}) uses more memory of GPU {} than it reports: for {} s more than {} MiB by NVML, now {} MiB, "
        "and {} MiB by its worker, pid {}, with {} MiB for contexts and code{}",
        finding.session, worker.client_pid, Printable(worker.hello.program), finding.device, MemoryAudit::kSecondsInARow,
        (finding.held_bytes + finding.beside_bytes + finding.more_bytes) >> 20, finding.used_bytes >> 20,
        finding.held_bytes >> 20, found->first, finding.beside_bytes >> 20, ends ? "; it is ended" : "");
    broker_.Found(finding.session, finding.device, FoundMessage::What::kMemory);
    if (ends) end(worker, GateEnd::kCaughtMemory);
  }
  for (const Audit::Finding& finding : findings.time) {
    const auto found = worker_of(finding.session);
    if (found == workers_.end()) continue;
    Worker& worker = found->second;
    LogWarning(
        "session {} of pid {} ({}) uses GPU {} without reporting it: for {:.0f} s its kernels had {:.0f} % of the time by NVML, "
        "and {:.0f} % by its worker, pid {}{}",
        finding.session, worker.client_pid, Printable(worker.hello.program), finding.device, finding.seconds,
        finding.seen_percent, finding.reported_percent, found->first, auditor_.ends_sessions() ? "; it is ended" : "");
    broker_.Found(finding.session, finding.device, FoundMessage::What::kTime);
    if (auditor_.ends_sessions()) end(worker, GateEnd::kCaught);
  }
  for (auto& [pid, worker] : workers_) {
    if (MonotonicNs() < worker.kill_at_ns) continue;
    LogWarning("session {} goes on: its worker {} is killed", worker.process.session, pid);
    kill(pid, SIGKILL);
    worker.kill_at_ns = kNoDeadline;
  }
}

}  // namespace tessera
