// The socket addresses of a host, and whether it is this host.
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
  // Whether it is a loopback address: 127.0.0.0/8, also mapped to IPv6, or ::1.
  bool IsLoopback() const;
  uint16_t port() const;
};

// The addresses of a host, in the order to try them (getaddrinfo(3)). May ask a name server, for as long as the resolver's
// configuration allows. kNotFound: there is no such host. Any thread.
Result<std::vector<TcpEndpoint>> Resolve(const LinkAddress& address);

// Ok if every endpoint is on this host or `insecure` is true, else kPermissionDenied. Without encryption anybody on the way can
// read and change what programs compute.
Status CheckSecure(const LinkAddress& address, const std::vector<TcpEndpoint>& endpoints, bool insecure);

}  // namespace tessera
