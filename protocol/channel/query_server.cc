#include "protocol/channel/query_server.h"

#include <utility>

#include "protocol/channel/server_user.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

// `is_own`: this process has connected, so that who it is may be why it was turned away.
Status Explain(int socket, const std::string& path, bool is_own, const Status& status) {
  if (status.code() == StatusCode::kTimedOut) {
    return Status(StatusCode::kTimedOut,
                  "whoever listens on the socket " + path + " does not answer: is it a tesserad, and is it stopped?");
  }
  return is_own ? ExplainHangUp(socket, status) : status;
}

Result<ServerReport> Ask(int socket, const std::string& path, bool is_own, const ServerQuery& query, uint64_t deadline_ns) {
  Encoder encoder(kControlMessageBytesMax);
  query.Encode(encoder);
  if (const Status sent = SendMessage(socket, encoder.bytes(), {}, deadline_ns); !sent.ok()) {
    return Explain(socket, path, is_own, sent);
  }
  Result<SocketMessage> message = ReceiveMessage(socket, kControlMessageBytesMax, deadline_ns);
  if (!message.ok()) return Explain(socket, path, is_own, message.status());
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

}  // namespace

Result<ServerReport> QueryServer(const std::string& path, const ServerQuery& query, uint64_t deadline_ns) {
  Result<UniqueFd> socket = ConnectToServer(path);
  return socket.ok() ? Ask(socket->get(), path, true, query, deadline_ns) : socket.status();
}

Result<ServerReport> QueryServer(const UniqueFd& server, const std::string& path, const ServerQuery& query,
                                 uint64_t deadline_ns) {
  return Ask(server.get(), path, false, query, deadline_ns);
}

}  // namespace tessera
