#include "server/daemon/control_callers.h"

#include <fcntl.h>

#include <span>
#include <string>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/waiting.h"
#include "server/daemon/caller.h"

namespace tessera {

Result<UniqueFd> ControlCallers::NewLine() {
  Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
  if (!ends.ok()) return ends.status();
  line_ = std::move(ends->first);
  full_ = false;
  return std::move(ends->second);
}

pollfd ControlCallers::watched() const {
  if (!line_.valid() || accepting_.rests(MonotonicNs())) return {-1, 0, 0};
  return full_ ? pollfd{line_.get(), POLLOUT, 0} : pollfd{listener_.fd(), POLLIN, 0};
}

uint64_t ControlCallers::next_ns() const { return accepting_.rests(MonotonicNs()) ? accepting_.until_ns() : kNoDeadline; }

bool ControlCallers::HasRoom() {
  pollfd line = {line_.get(), POLLOUT, 0};
  poll(&line, 1, 0);
  full_ = line.revents == 0;
  if ((line.revents & (POLLHUP | POLLERR)) != 0) line_.reset();
  return line_.valid() && !full_;
}

void ControlCallers::Pass() {
  for (int taken = 0; taken < kTakenAtOnceMax && HasRoom(); ++taken) {
    Result<UniqueFd> caller = listener_.Accept();
    if (!caller.ok()) {
      if (caller.status().code() == StatusCode::kTimedOut) return accepting_.End();  // nobody waits
      if (caller.status().code() != StatusCode::kPermissionDenied) return accepting_.Begin(caller.status(), MonotonicNs());
      LogStranger("turned away a caller of the control API: {}", caller.status().message());
      continue;
    }
    accepting_.End();
    Result<PeerCredentials> peer = PeerOf(caller->get());
    const int flags = fcntl(caller->get(), F_GETFL);
    if (!peer.ok() || fcntl(caller->get(), F_SETFL, flags | O_NONBLOCK) != 0) continue;
    const std::string holder = HolderOfUser(peer->uid);
    const int fd = caller->get();
    const Status passed = SendMessage(line_.get(), std::as_bytes(std::span(holder)), std::span(&fd, 1), 0);
    if (!passed.ok()) LogStranger("turned away a caller of the control API: {}", passed.message());
  }
}

}  // namespace tessera
