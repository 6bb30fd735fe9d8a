// What the supervisor does when somebody asks that a session ends.
#include <fmt/core.h>

#include <algorithm>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/wire/holder.h"
#include "server/daemon/supervisor.h"

namespace tessera {

void Supervisor::EndSession(const EndMessage& end, GateEnd why) {
  for (auto& [pid, worker] : workers_) {
    if (worker.process.session != end.session || worker.end_at_ns <= end.at_ns) continue;
    worker.end_at_ns = end.at_ns;
    worker.end_why = why;
  }
}

void Supervisor::EndAsked(int connection, const ServerQuery& query) {
  const Caller asker = WhoIs(connection, query.holder);
  const auto found =
      std::ranges::find_if(workers_, [&](const auto& each) { return each.second.process.session == query.session; });
  // Who asks for another's is told what he would be told if there were none. Who has proved nothing may be anybody, and has none.
  const bool may = found != workers_.end() && asker.holder != kAnonymousHolder && Sees(asker, found->second.caller.holder);
  if (!may) {
    return Refuse(connection,
                  Status(StatusCode::kInvalidArgument,
                         fmt::format("there is no session {} of yours: it has ended, or is another's ('tessera top' shows yours)",
                                     query.session)));
  }
  LogInfo("session {} of pid {} is to end in {} ms: {} has asked for it", query.session, found->second.client_pid, query.grace_ms,
          asker.holder);
  EndSession({query.session, MonotonicNs() + query.grace_ms * 1'000'000}, GateEnd::kAsked);
  Encoder encoder(kControlMessageBytesMax);
  report_.Encode(encoder);
  const Status sent = SendMessage(connection, encoder.bytes(), {}, 0);
  if (!sent.ok()) LogDebug("who ended session {} was not told so: {}", query.session, sent.message());
}

void Supervisor::TendEnds() {
  const uint64_t now_ns = MonotonicNs();
  for (auto& [pid, worker] : workers_) {
    if (now_ns < worker.end_at_ns) continue;
    if (worker.end_why == GateEnd::kDeleted) {
      LogWarning("session {} of pid {} is ended: its vGPU '{}' was deleted by force", worker.process.session, worker.client_pid,
                 Printable(worker.hello.vgpus));
    } else {
      LogInfo("session {} of pid {} is ended, as was asked for", worker.process.session, worker.client_pid);
    }
    // It tells its program why.
    worker.process.gate.SayEnd(worker.end_why);
    worker.end_at_ns = kNoDeadline;
    worker.told_to_end = true;
    worker.kill_at_ns = now_ns + kCaughtWaitNs;
  }
}

}  // namespace tessera
