#include "server/daemon/metrics_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdint>
#include <cstring>

namespace tessera {
namespace {

constexpr int kBacklog = 16;

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
  bool is_loopback = false;
};

// False: it is no address.
bool Take(const std::string& address, Endpoint* endpoint) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  uint16_t port = 0;
  const char* const last = address.data() + address.size();
  const auto [end, error] = std::from_chars(address.data() + colon + 1, last, port);
  if (error != std::errc() || end != last || port == 0) return false;
  std::string host = address.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    if (inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six.sin6_addr) != 1) return false;
    std::memcpy(&endpoint->address, &six, sizeof(six));
    endpoint->length = sizeof(six);
    endpoint->is_loopback = IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    return true;
  }
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) != 1) return false;
  std::memcpy(&endpoint->address, &four, sizeof(four));
  endpoint->length = sizeof(four);
  endpoint->is_loopback = ntohl(four.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return true;
}

}  // namespace

bool IsMetricsAddress(const std::string& address) {
  Endpoint endpoint;
  return Take(address, &endpoint);
}

Result<UniqueFd> ListenForMetrics(const std::string& address) {
  Endpoint endpoint;
  if (!Take(address, &endpoint)) return Status(StatusCode::kInvalidArgument, address + " is no address");
  if (!endpoint.is_loopback) {
    return Status(StatusCode::kInvalidArgument,
                  address +
                      " can be reached from other hosts, and metrics are served on the loopback device only: choose "
                      "127.0.0.1, and let the collector run on this host or come by a tunnel");
  }
  UniqueFd socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status::FromErrno("cannot create a socket", errno);
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // connections of the server before may linger
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.length) == 0 &&
      listen(socket.get(), kBacklog) == 0) {
    return socket;
  }
  switch (errno) {
    case EADDRINUSE:
      return Status(StatusCode::kUnavailable, "somebody listens on " + address + " already: stop it or choose another port");
    case EACCES:
      return Status(StatusCode::kPermissionDenied, "not allowed to listen on " + address + ": choose a port above 1023");
    default: return Status::FromErrno("cannot listen on " + address, errno);
  }
}

}  // namespace tessera
