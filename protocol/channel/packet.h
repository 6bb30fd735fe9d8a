// Messages of one fixed form between two processes of the server, each with at most one descriptor. A worker talks so with the
// processes that serve it. Both ends are of one build, so a message is the bytes of a struct. Any thread, one at a time for each
// end.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {

// `fd`: -1 for none; it stays the caller's. Errors of SendMessage().
template <typename T>
Status SendPacket(int socket, const T& packet, int fd, uint64_t deadline_ns) {
  static_assert(std::is_trivially_copyable_v<T>);
  return SendMessage(socket, std::as_bytes(std::span(&packet, 1)), std::span(&fd, fd >= 0 ? 1 : 0), deadline_ns);
}

// kTimedOut: none came until the deadline (0: none waits). kProtocolViolation: the message has another form. Else errors of
// ReceiveMessage(). `fd` stays invalid when no descriptor came.
template <typename T>
Status ReceivePacket(int socket, uint64_t deadline_ns, T* packet, UniqueFd* fd) {
  static_assert(std::is_trivially_copyable_v<T>);
  Result<SocketMessage> received = ReceiveMessage(socket, sizeof(T), deadline_ns);
  if (!received.ok()) return received.status();
  if (received->bytes.size() != sizeof(T) || received->fds.size() > 1) {
    return Status(StatusCode::kProtocolViolation, "a message of another form");
  }
  std::memcpy(static_cast<void*>(packet), received->bytes.data(), sizeof(T));
  if (!received->fds.empty()) *fd = std::move(received->fds[0]);
  return Status::Ok();
}

}  // namespace tessera
