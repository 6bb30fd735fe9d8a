// How a TCP connection begins: addresses, options, preamble.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "protocol/base/clock.h"
#include "protocol/link/preamble.h"
#include "protocol/link/tcp/tcp_endpoint.h"
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/link/tcp/tcp_stream.h"

namespace tessera {
namespace {

Status SendPreamble(int socket) {
  const Preamble ours;
  // The first bytes of a connection: there is room for them.
  if (send(socket, &ours, sizeof(ours), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(ours)) return Status::Ok();
  return DescribeTcpLoss(errno);
}

Result<Preamble> ReceivePreamble(int socket, uint64_t deadline_ns) {
  Preamble theirs;
  std::span<std::byte> rest = std::as_writable_bytes(std::span(&theirs, 1));
  while (!rest.empty()) {
    const ssize_t got = recv(socket, rest.data(), rest.size(), MSG_DONTWAIT);
    if (got == 0) return DescribeTcpLoss(ECONNRESET);
    if (got > 0) {
      rest = rest.subspan(static_cast<size_t>(got));
      // A peer that says something else may say less than a preamble, and then wait for us.
      if (rest.size() <= sizeof(Preamble) - sizeof(theirs.magic) && theirs.magic != Preamble::kMagic) break;
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(AwaitSocket(socket, POLLIN, deadline_ns));
    } else if (errno != EINTR) {
      return DescribeTcpLoss(errno);
    }
  }
  return theirs;
}

Status CannotReach(const LinkAddress& address, int error, const char* program) {
  if (error == ECONNREFUSED) {
    return Status(StatusCode::kUnavailable,
                  "nobody listens at " + address.Url() + ": start " + program + " there, or correct the address");
  }
  return Status(StatusCode::kUnavailable,
                address.Url() + " cannot be reached: " + std::strerror(error) + "; correct the address, or look at the network");
}

// Connects to one endpoint.
Result<UniqueFd> ConnectOne(const LinkAddress& address, const TcpEndpoint& endpoint, uint64_t deadline_ns, const char* program) {
  UniqueFd socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status::FromErrno("cannot create a socket", errno);
  if (connect(socket.get(), endpoint.get(), endpoint.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return errno == EAGAIN ? Status::FromErrno("cannot connect to " + address.Url(), errno)
                           : CannotReach(address, errno, program);
  }
  if (!AwaitSocket(socket.get(), POLLOUT, deadline_ns).ok()) return NoAnswer(address);
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == ETIMEDOUT) return NoAnswer(address);
  if (error != 0) return CannotReach(address, error, program);
  return socket;
}

// TLS begins with a record of a handshake, and says that it cannot go on with one of an alert (RFC 8446, 5.1).
bool IsTls(const Preamble& theirs) {
  const uint8_t type = theirs.magic & 0xff;
  return (type == 0x15 || type == 0x16) && (theirs.magic >> 8 & 0xff) == 0x03;
}

}  // namespace

Status NoAnswer(const LinkAddress& address) {
  return Status(StatusCode::kTimedOut,
                "there is no answer from " + address.Url() + ": is its host up, and does its firewall let the port through?");
}

Status NoGateway(const LinkAddress& address, const char* program) {
  return Status(StatusCode::kProtocolViolation,
                "whoever listens at " + address.Url() + " is no " + program + ": correct the address");
}

Result<UniqueFd> ConnectTcpSocket(const LinkAddress& address, bool insecure, uint64_t deadline_ns, const char* program) {
  Result<std::vector<TcpEndpoint>> endpoints = Resolve(address);
  if (!endpoints.ok()) return endpoints.status();
  RETURN_IF_ERROR(CheckSecure(address, *endpoints, insecure));
  Result<UniqueFd> socket = NoAnswer(address);
  for (size_t i = 0; i < endpoints->size() && !socket.ok(); ++i) {
    // An address that does not answer leaves a share of the time to those behind it.
    const uint64_t now_ns = MonotonicNs();
    const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    Result<UniqueFd> one = ConnectOne(address, (*endpoints)[i], now_ns + left_ns / (endpoints->size() - i), program);
    // What the first address says counts: the host's name stands for it.
    if (one.ok() || i == 0) socket = std::move(one);
  }
  return socket;
}

namespace {

Result<std::unique_ptr<Link>> ConnectOnce(const LinkAddress& address, bool insecure, const DialSocket& dial, uint64_t deadline_ns,
                                          bool* hung_up) {
  *hung_up = false;
  Result<UniqueFd> socket = dial ? dial(deadline_ns) : ConnectTcpSocket(address, insecure, deadline_ns);
  if (!socket.ok()) return socket.status();
  if (!SendPreamble(socket->get()).ok()) return NoGateway(address);
  Result<Preamble> theirs = ReceivePreamble(socket->get(), deadline_ns);
  *hung_up = theirs.status().code() == StatusCode::kUnavailable;
  if (!theirs.ok()) return theirs.status().code() == StatusCode::kTimedOut ? NoAnswer(address) : NoGateway(address);
  if (IsTls(*theirs)) {
    return Status(StatusCode::kProtocolViolation,
                  "the gateway at " + address.Url() + " speaks TLS: write tls:// instead of tcp://");
  }
  if (theirs->magic != Preamble::kMagic) return NoGateway(address);
  RETURN_IF_ERROR(CheckLinkVersion("gateway", *theirs));
  return MakeTcpLink(std::move(*socket));
}

}  // namespace

Result<std::unique_ptr<Link>> ConnectAgain(uint64_t deadline_ns, const ConnectAttempt& attempt) {
  constexpr int kMoreMax = 5;
  constexpr uint64_t kOneMoreNs = 1'000'000'000;
  uint64_t pause_ns = 20'000'000;
  bool hung_up = false;
  Result<std::unique_ptr<Link>> first = attempt(deadline_ns, &hung_up);
  if (!hung_up) return first;
  for (int i = 0; i < kMoreMax && MonotonicNs() + pause_ns < deadline_ns; ++i, pause_ns *= 2) {
    poll(nullptr, 0, static_cast<int>(pause_ns / 1'000'000));
    Result<std::unique_ptr<Link>> link = attempt(std::min(deadline_ns, MonotonicNs() + kOneMoreNs), &hung_up);
    if (link.ok()) return link;
    if (link.status().code() == StatusCode::kTimedOut) break;
    if (!hung_up) return link;
  }
  return first;
}

Result<std::unique_ptr<Link>> ConnectTcp(const LinkAddress& address, bool insecure, uint64_t deadline_ns,
                                         const DialSocket& dial) {
  return ConnectAgain(deadline_ns,
                      [&](uint64_t until_ns, bool* hung_up) { return ConnectOnce(address, insecure, dial, until_ns, hung_up); });
}

Result<std::unique_ptr<Link>> AcceptTcp(UniqueFd connection, uint64_t deadline_ns) {
  Result<Preamble> theirs = ReceivePreamble(connection.get(), deadline_ns);
  if (!theirs.ok()) return theirs.status();
  const bool tls = IsTls(*theirs);
  if (theirs->magic != Preamble::kMagic && !tls) {
    return Status(StatusCode::kProtocolViolation, "the peer is no tessera: it sent something else than a preamble");
  }
  RETURN_IF_ERROR(SendPreamble(connection.get()));
  if (tls) {
    shutdown(connection.get(), SHUT_WR);
    LingerOnSocket(connection.get());
    return Status(StatusCode::kProtocolViolation,
                  "the peer speaks TLS, and this address is plain: let it use tcp://, or --listen here to tls://");
  }
  RETURN_IF_ERROR(CheckLinkVersion("client", *theirs));
  return MakeTcpLink(std::move(connection));
}

std::string DescribeTcpPeer(int connection) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "somebody";
  }
  return std::string(host) + ":" + port;
}

// --- TcpListener ---

Result<TcpListener> TcpListener::Bind(const LinkAddress& address, bool insecure) {
  Result<std::vector<TcpEndpoint>> endpoints = Resolve(address);
  if (!endpoints.ok()) return endpoints.status();
  RETURN_IF_ERROR(CheckSecure(address, *endpoints, insecure));
  const TcpEndpoint& endpoint = endpoints->front();
  UniqueFd socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status::FromErrno("cannot create a socket", errno);
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // connections of the one before us may linger
  if (bind(socket.get(), endpoint.get(), endpoint.length) != 0 || listen(socket.get(), kBacklog) != 0) {
    switch (errno) {
      case EADDRINUSE:
        return Status(StatusCode::kUnavailable,
                      "somebody listens on " + address.Url() + " already: stop it or choose another port");
      case EADDRNOTAVAIL: return Status(StatusCode::kInvalidArgument, address.Url() + " is no address of this host: correct it");
      case EACCES:
        return Status(StatusCode::kPermissionDenied, "not allowed to listen on " + address.Url() + ": choose a port above 1023");
      default: return Status::FromErrno("cannot listen on " + address.Url(), errno);
    }
  }
  return Adopt(std::move(socket), address);
}

Result<TcpListener> TcpListener::Adopt(UniqueFd socket, const LinkAddress& address) {
  TcpEndpoint bound;
  bound.length = sizeof(bound.address);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.address), &bound.length) != 0) {
    return Status::FromErrno("cannot tell the port of " + address.Url(), errno);
  }
  LinkAddress actual = address;
  actual.port = bound.port();
  return TcpListener(std::move(socket), std::move(actual));
}

Result<UniqueFd> TcpListener::Accept() {
  UniqueFd connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection.valid()) return connection;
  // accept(2): errors of a connection that failed while it waited are those of the network.
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    return Status(StatusCode::kResourceExhausted, std::string("cannot accept a connection: ") + std::strerror(errno));
  }
  return Status(StatusCode::kTimedOut, "no connection waits");
}

Result<AcceptedLink> TcpListener::Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) {
  std::string peer = DescribeTcpPeer(connection.get());
  Result<std::unique_ptr<Link>> link = AcceptTcp(std::move(connection), deadline_ns);
  if (!link.ok()) return link.status();
  progress.Proved();
  return AcceptedLink{std::move(*link), std::move(peer)};
}

}  // namespace tessera
