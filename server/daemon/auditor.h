// Runs the daemon's audit. Whenever the broker tells what workers reported it asks the monitor for figures, and compares the two
// (readings/audit.h). One thread. Nothing here waits: a monitor that has not answered is not asked again,
// and of what it answers then no times are compared.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/unique_fd.h"
#include "server/daemon/monitor.h"
#include "server/daemon/options.h"
#include "server/daemon/readings/audit.h"
#include "server/daemon/readings/memory_audit.h"
#include "server/daemon/readings/memory_doubts.h"

namespace tessera {

class Auditor {
 public:
  struct Findings {
    std::vector<Audit::Finding> time;
    std::vector<MemoryAudit::Finding> memory;
    std::optional<SeenMessage> seen;  // for the broker, when it is to hear that
  };

  // `context_bytes`: as of ServerReport.
  Auditor(Options::Audit mode, const std::vector<uint64_t>& context_bytes) : mode_(mode), memory_audit_(context_bytes) {}

  void SetMode(Options::Audit mode) { mode_ = mode; }
  bool on() const { return mode_ != Options::Audit::kOff; }
  bool ends_sessions() const { return mode_ == Options::Audit::kEnd; }
  // `request`: with this server's sessions. `ask`: of those that `reported` has.
  void Hear(const ReportedMessage& reported, const AskOfWorker& ask, MonitorRequest request, Monitor& monitor);
  // The socket of the answer, for poll(); -1 while none is awaited.
  int fd() const { return socket_.get(); }
  // The findings of what has come since the last call.
  Findings Look();

  // For reports: "off", "log", "end", or "blind" while there is nothing to compare with.
  std::string word() const;
  const Audit& audit() const { return audit_; }
  const MemoryAudit& memory_audit() const { return memory_audit_; }

 private:
  Options::Audit mode_;
  Audit audit_;
  MemoryAudit memory_audit_;
  MemoryDoubts memory_doubts_;
  bool any_doubted_ = false;  // the last time
  UniqueFd socket_;
  bool is_late_ = false;  // what is awaited there was asked for before the last Hear()
  bool said_blind_ = false;
};

}  // namespace tessera
