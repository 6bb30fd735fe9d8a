#include "server/daemon/auditor.h"

#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {

void Auditor::Hear(const ReportedMessage& reported, const AskOfWorker& ask, MonitorRequest request, Monitor& monitor) {
  audit_.Hear(reported, ask);
  memory_audit_.Hear(reported, ask);
  memory_doubts_.Hear(reported);
  is_late_ = socket_.valid();
  if (is_late_) return;
  Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
  if (!ends.ok()) return LogDebug("no audit this time: {}", ends.status().message());
  request.figures = true;
  const Status asked = monitor.Answer(request, ends->second.get());
  if (!asked.ok()) return LogDebug("no audit this time: {}", asked.message());
  socket_ = std::move(ends->first);
}

Auditor::Findings Auditor::Look() {
  if (!socket_.valid()) return {};
  const Result<SocketMessage> message = ReceiveMessage(socket_.get(), ProcessFigures::kBytesMax, 0);
  if (!message.ok() && message.status().code() == StatusCode::kTimedOut) return {};
  socket_.reset();
  const Result<ProcessFigures> figures = message.ok() ? ProcessFigures::Decode(message.value().bytes) : message.status();
  if (!figures.ok()) {
    LogDebug("no audit this time: {}", figures.status().message());
    audit_.Skip();
    return {};
  }
  Findings findings{{}, memory_audit_.Compare(figures.value()), {}};
  if (is_late_) {
    audit_.Skip();
  } else {
    findings.time = audit_.Compare(figures.value());
  }
  SeenMessage seen{memory_doubts_.Compare(figures.value())};
  const bool any_doubted = !seen.rows.empty();
  if (std::exchange(any_doubted_, any_doubted) || any_doubted) findings.seen = std::move(seen);
  if (audit_.blind() != nullptr && !std::exchange(said_blind_, true)) {
    LogWarning("there is no audit of what workers report: {}", audit_.blind());
  }
  return findings;
}

std::string Auditor::word() const {
  if (mode_ == Options::Audit::kOff) return "off";
  if (audit_.blind() != nullptr) return "blind";
  return mode_ == Options::Audit::kEnd ? "end" : "log";
}

}  // namespace tessera
