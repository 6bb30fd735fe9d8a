#include "protocol/rpc/rpc_client.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "protocol/base/clock.h"
#include "protocol/base/printable.h"
#include "protocol/channel/server_user.h"
#include "protocol/link/link_address.h"
#include "protocol/link/tcp/tcp_stream.h"

namespace tessera {
namespace {

constexpr std::string_view kTls = "tls://";
constexpr std::string_view kUnix = "unix:";
constexpr uint64_t kNsOfS = 1'000'000'000;

Result<RpcConnection> ConnectByTls(const std::string& url, const KeyFiles& keys, const RpcPeer& peer, uint64_t deadline_ns,
                                   const RpcMeans& means) {
  Result<LinkAddress> address = LinkAddress::Parse(url);
  if (!address.ok()) return address.status();
  LinkOptions link;
  link.keys = keys;
  link.open_file = means.open_file;
  link.dial = means.dial;
  Result<std::shared_ptr<TlsTunnel>> tunnel = TlsTunnel::Connect(*address, link, peer, deadline_ns);
  if (!tunnel.ok()) return tunnel.status();
  return RpcConnection{grpc::CreateInsecureChannelFromFd(peer.what, (*tunnel)->TakeSocket().release()), *tunnel};
}

Result<UniqueFd> DialHere(const std::string& path, const RpcPeer& peer, const std::string& when_absent, uint64_t deadline_ns) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(StatusCode::kInvalidArgument, fmt::format("the socket path {} is longer than {} bytes: choose a shorter one",
                                                            Printable(path), sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Status::FromErrno("cannot create a socket", errno);
  // With a full backlog connect() waits for SO_SNDTIMEO (socket(7)). A timeout of 0 would mean for ever.
  const uint64_t now_ns = MonotonicNs(), wait_ns = std::max<uint64_t>(deadline_ns > now_ns ? deadline_ns - now_ns : 0, 1'000);
  const timeval wait = {static_cast<time_t>(wait_ns / kNsOfS), static_cast<suseconds_t>(wait_ns % kNsOfS / 1'000)};
  if (setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) != 0)
    return Status::FromErrno("cannot use a socket", errno);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EAGAIN) {
      return Status(StatusCode::kTimedOut, fmt::format("the {} at {} takes no connections: look whether it is stopped, or start "
                                                       "it again",
                                                       peer.what, Printable(path)));
    }
    const bool refused = errno == EACCES || errno == EPERM;
    const std::string what = fmt::format("no {} at {}: {}; ", peer.what, Printable(path), strerror(errno));
    return refused ? Status(StatusCode::kPermissionDenied, what + "ask whoever runs it for the right to use its socket")
                   : Status(StatusCode::kUnavailable, what + when_absent);
  }
  RETURN_IF_ERROR(CheckServerUser(socket.get(), path));
  if (fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) return Status::FromErrno("cannot use a socket", errno);
  return socket;
}

}  // namespace

Result<RpcConnection> ConnectRpc(const std::string& url, const KeyFiles& keys, const RpcPeer& peer,
                                 const std::string& when_absent, uint64_t wait_ns, const RpcMeans& means) {
  const uint64_t deadline_ns = MonotonicNs() + wait_ns;
  if (url.starts_with(kTls)) return ConnectByTls(url, keys, peer, deadline_ns, means);
  Result<UniqueFd> socket = means.dial ? means.dial(deadline_ns) : DialRpc(url, peer, when_absent, deadline_ns);
  if (!socket.ok()) return socket.status();
  return RpcConnection{grpc::CreateInsecureChannelFromFd(peer.what, socket->release()), nullptr};
}

Result<UniqueFd> DialRpc(const std::string& url, const RpcPeer& peer, const std::string& when_absent, uint64_t deadline_ns) {
  if (url.starts_with(kTls)) {
    Result<LinkAddress> address = LinkAddress::Parse(url);
    return address.ok() ? ConnectTcpSocket(*address, true, deadline_ns, peer.program) : address.status();
  }
  const std::string path = url.starts_with(kUnix) ? url.substr(kUnix.size()) : "";
  if (!path.empty()) return DialHere(path, peer, when_absent, deadline_ns);
  return Status(StatusCode::kInvalidArgument,
                fmt::format("'{}' is no address of a {}: write unix:PATH or tls://HOST:PORT", Printable(url), peer.what));
}

}  // namespace tessera
