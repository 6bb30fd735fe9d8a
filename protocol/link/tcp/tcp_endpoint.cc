#include "protocol/link/tcp/tcp_endpoint.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

bool IsLoopback4(const in_addr& address) { return ntohl(address.s_addr) >> 24 == 127; }

}  // namespace

bool TcpEndpoint::IsLoopback() const {
  if (address.ss_family == AF_INET) return IsLoopback4(reinterpret_cast<const sockaddr_in*>(&address)->sin_addr);
  if (address.ss_family != AF_INET6) return false;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&six)) return true;
  if (!IN6_IS_ADDR_V4MAPPED(&six)) return false;
  in_addr four{};
  std::memcpy(&four, six.s6_addr + 12, sizeof(four));
  return IsLoopback4(four);
}

uint16_t TcpEndpoint::port() const {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Result<std::vector<TcpEndpoint>> Resolve(const LinkAddress& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
    return Status(StatusCode::kNotFound, "the host " + address.host + " of " + address.Url() + " is not known (" + why +
                                             "): correct the address, or look at the name server");
  }
  std::vector<TcpEndpoint> endpoints;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if ((one->ai_family != AF_INET && one->ai_family != AF_INET6) || one->ai_addrlen > sizeof(sockaddr_storage)) continue;
    TcpEndpoint& endpoint = endpoints.emplace_back();
    std::memcpy(&endpoint.address, one->ai_addr, one->ai_addrlen);
    endpoint.length = one->ai_addrlen;
  }
  freeaddrinfo(found);
  if (!endpoints.empty()) return endpoints;
  return Status(StatusCode::kNotFound, "the host " + address.host + " of " + address.Url() + " has no address");
}

Status CheckSecure(const LinkAddress& address, const std::vector<TcpEndpoint>& endpoints, bool insecure) {
  if (insecure || std::all_of(endpoints.begin(), endpoints.end(), [](const auto& one) { return one.IsLoopback(); })) {
    return Status::Ok();
  }
  return Status(StatusCode::kPermissionDenied,
                address.Url() +
                    " is not an address of this host alone, and what travels there is neither encrypted nor "
                    "authenticated: use tls://, or give --insecure, on both sides, if everybody on that network "
                    "may use the GPU");
}

}  // namespace tessera
