#include "protocol/channel/query_server.h"

#include <utility>

#include "protocol/base/unique_fd.h"
#include "protocol/channel/server_user.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

Status Explain(int socket, const std::string& path, const Status& status) {
  if (status.code() == StatusCode::kTimedOut) {
    return Status(StatusCode::kTimedOut,
                  "whoever listens on the socket " + path + " does not answer: is it a tesserad, and is it stopped?");
  }
  return ExplainHangUp(socket, status);
}

}  // namespace

Result<ServerReport> QueryServer(const std::string& path, const ServerQuery& query, uint64_t deadline_ns) {
  Result<UniqueFd> socket = ConnectToServer(path);
  if (!socket.ok()) return socket.status();
  Encoder encoder(kControlMessageBytesMax);
  query.Encode(encoder);
  if (const Status sent = SendMessage(socket->get(), encoder.bytes(), {}, deadline_ns); !sent.ok()) {
    return Explain(socket->get(), path, sent);
  }
  Result<SocketMessage> message = ReceiveMessage(socket->get(), kControlMessageBytesMax, deadline_ns);
  if (!message.ok()) return Explain(socket->get(), path, message.status());
  switch (ControlKindOf(message->bytes)) {
    case ControlKind::kServerReport: return ServerReport::Decode(message->bytes);
    case ControlKind::kServerRefusal: {
      Result<ServerRefusal> refusal = ServerRefusal::Decode(message->bytes);
      return refusal.ok() ? Status(refusal->code, refusal->sentence) : refusal.status();
    }
    default:
      return Status(StatusCode::kProtocolViolation,
                    "whoever listens on the socket " + path + " is no tesserad: correct the path");
  }
}

}  // namespace tessera
