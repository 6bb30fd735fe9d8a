// Two connected sockets over the loopback device, and how bytes are moved through one that does not block.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <utility>

#include "protocol/channel/waiting.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "tests/support/tcp_pair.h"

namespace tessera {

inline std::pair<UniqueFd, UniqueFd> ConnectSockets() {
  TcpListener listener = TcpListener::Bind({"127.0.0.1", 0}, false).value();
  std::pair<UniqueFd, UniqueFd> ends{ConnectTcpSocket(listener.address(), false, kNoDeadline - 1).value(), UniqueFd()};
  ends.second = AwaitConnection(listener).value();
  for (const int socket : {ends.first.get(), ends.second.get()}) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return ends;
}

// What an attempt to move bytes came to.
struct Moved {
  ptrdiff_t bytes = 0;  // 0 or less: no more come
  short wait_for = 0;   // of poll(2): nothing can be moved before that; 0: it was not in vain
};

// Moves all of them. `spin`: where to wait for a moment first; null: nowhere. False when the other end is gone.
template <typename Attempt>
bool MoveAll(int socket, AdaptiveSpin* spin, std::byte* at, size_t bytes, const Attempt& attempt) {
  while (bytes != 0) {
    Moved moved;
    const auto ready = [&] {
      moved = attempt(at, bytes);
      return moved.wait_for == 0;
    };
    if (spin == nullptr ? !ready() : !spin->Spin(ready)) {
      pollfd wait = {socket, moved.wait_for, 0};
      poll(&wait, 1, -1);
      continue;
    }
    if (moved.bytes <= 0) return false;
    at += moved.bytes;
    bytes -= static_cast<size_t>(moved.bytes);
  }
  return true;
}

}  // namespace tessera
