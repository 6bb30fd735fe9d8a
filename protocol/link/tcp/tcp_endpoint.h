// What an address leads to over TCP: the sockets' addresses of a host, and whether that is this host.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/link_address.h"

namespace tessera {

// One address of a host.
struct TcpEndpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  // Whether what is sent there never leaves this host: 127.0.0.0/8, also in IPv6's clothes, and ::1.
  bool IsLoopback() const;
  uint16_t port() const;
};

// The addresses of a host, in the order in which they are to be tried (getaddrinfo(3); asks a name server if it must, which
// takes as long as the resolver's configuration lets it). kNotFound when there is no such host. Any thread.
Result<std::vector<TcpEndpoint>> Resolve(const LinkAddress& address);

// Ok when every endpoint is on this host, or `insecure` is true: else kPermissionDenied. Without encryption whoever sees the
// bytes on their way can read and change all that programs compute.
Status CheckSecure(const LinkAddress& address, const std::vector<TcpEndpoint>& endpoints, bool insecure);

}  // namespace tessera
