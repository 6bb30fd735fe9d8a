#include "server/daemon/caller_names.h"

#include <span>
#include <string>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "server/daemon/caller.h"

namespace tessera {
namespace {

// Answered before others are looked at again.
constexpr int kAnsweredAtOnceMax = 16;

}  // namespace

Result<UniqueFd> CallerNames::NewLine() {
  Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
  if (!ends.ok()) return ends.status();
  line_ = std::move(ends->first);
  return std::move(ends->second);
}

void CallerNames::Answer() {
  for (int answered = 0; answered < kAnsweredAtOnceMax && line_.valid(); ++answered) {
    Result<SocketMessage> question = ReceiveMessage(line_.get(), 1, 0);
    if (!question.ok() && question.status().code() == StatusCode::kTimedOut) return;
    if (!question.ok() && question.status().code() != StatusCode::kProtocolViolation) return line_.reset();  // it has ended
    if (!question.ok() || question->fds.size() != 1) continue;  // for want of descriptors, as a rule
    const int connection = question->fds[0].get();
    Result<PeerCredentials> peer = PeerOf(connection);
    if (!peer.ok()) continue;
    const std::string holder = HolderOfUser(peer->uid);
    const Status sent = SendMessage(line_.get(), std::as_bytes(std::span(holder)), std::span(&connection, 1), 0);
    if (!sent.ok()) LogStranger("turned away a caller of the control API: {}", sent.message());
  }
}

}  // namespace tessera
