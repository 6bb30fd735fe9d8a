// Addresses of the form tcp://HOST:PORT: what they look like, what they lead to, and whether that is this host.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

struct TcpAddress {
  static constexpr std::string_view kScheme = "tcp://";
  static constexpr size_t kHostBytesMax = 253;  // of a name in the DNS (RFC 1035)

  std::string host;   // a name, an IPv4 address, or an IPv6 address without its brackets
  uint16_t port = 0;  // 0: one that the kernel chooses; for listening only

  // Takes "tcp://HOST:PORT" apart; an IPv6 address stands in brackets. kInvalidArgument with the form it takes.
  static Result<TcpAddress> Parse(std::string_view url);
  std::string Url() const;
};

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
Result<std::vector<TcpEndpoint>> Resolve(const TcpAddress& address);

// Ok when every endpoint is on this host, or `insecure` is true: else kPermissionDenied. Without encryption whoever sees the
// bytes on their way can read and change all that programs compute.
Status CheckSecure(const TcpAddress& address, const std::vector<TcpEndpoint>& endpoints, bool insecure);

}  // namespace tessera
