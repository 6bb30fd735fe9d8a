#include "server/daemon/handover.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"

namespace tessera {

Status SendWish(int socket, const ClientHello& hello) {
  Encoder encoder(kControlMessageBytesMax);
  hello.Encode(encoder);
  return SendMessage(socket, encoder.bytes(), {}, 0);
}

Status SendClient(int socket, int connection) {
  const std::array<std::byte, 1> word{};
  return SendMessage(socket, word, std::array{connection}, 0);
}

Result<ClientHello> ReceiveWish(int socket) {
  Result<SocketMessage> message = ReceiveMessage(socket, kControlMessageBytesMax, kNoDeadline);
  return message.ok() ? ClientHello::Decode(message->bytes) : message.status();
}

Result<UniqueFd> ReceiveClient(int socket) {
  Result<SocketMessage> message = ReceiveMessage(socket, 1, kNoDeadline);
  if (!message.ok()) return message.status();
  if (message->fds.size() != 1) return Status(StatusCode::kInternal, "the daemon sent no connection");
  return std::move(message->fds.front());
}

void TakeNoMoreClients(int socket) { shutdown(socket, SHUT_RDWR); }

bool ClientWaits(int socket) {
  pollfd ready = {socket, POLLIN, 0};
  return poll(&ready, 1, 0) > 0;
}

}  // namespace tessera
