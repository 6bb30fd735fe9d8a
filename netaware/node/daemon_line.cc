#include "netaware/node/daemon_line.h"

#include <poll.h>

#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/wire/encoder.h"

namespace tessera {
namespace {

constexpr int kMessagesAtOnce = 64;

}  // namespace

short DaemonLine::events() const { return static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT); }

bool DaemonLine::Tend(const std::function<void(TicketQuestion)>& asked) {
  while (!unsent_.empty()) {
    const Status sent = SendMessage(fd(), unsent_.front(), {}, 0);
    if (sent.code() == StatusCode::kTimedOut) break;
    unsent_.pop_front();
  }
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    Result<SocketMessage> message = ReceiveMessage(fd(), kNodeMessageBytesMax, 0);
    if (message.status().code() == StatusCode::kTimedOut) return true;
    if (!message.ok()) {
      if (message.status().code() != StatusCode::kUnavailable)
        LogError("the line to tesserad is of no use: {}", message.status().message());
      return false;
    }
    Result<TicketQuestion> question = TicketQuestion::Decode(message->bytes);
    if (question.ok()) {
      asked(std::move(question).value());
    } else {
      LogWarning("tesserad asks something else: {}", question.status().message());
    }
  }
  return true;
}

void DaemonLine::Send(const TicketAnswer& answer) {
  Encoder out(kNodeMessageBytesMax);
  answer.Encode(out);
  if (unsent_.empty() && SendMessage(fd(), out.bytes(), {}, 0).code() != StatusCode::kTimedOut) return;
  if (unsent_.size() >= kUnsentMax) {
    LogWarning("tesserad does not read what its node answers");
    return;
  }
  unsent_.emplace_back(out.bytes().begin(), out.bytes().end());
}

}  // namespace tessera
