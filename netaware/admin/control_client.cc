#include "netaware/admin/control_client.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <grpcpp/create_channel_posix.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string_view>

#include "programs/service_options.h"
#include "protocol/base/clock.h"
#include "protocol/base/printable.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/server_user.h"
#include "protocol/link/link_address.h"

namespace tessera {
namespace {

constexpr std::string_view kTls = "tls://";
constexpr uint64_t kConnectNs = 10'000'000'000;

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<std::string> ControlUrl(const VgpuOptions& options) {
  std::string url = options.control;
  std::string end;
  if (url.empty() && options.server.empty()) url = Variable("TESSERA_CONTROL");
  if (url.empty()) {
    url = options.server.empty() ? Variable("TESSERA_SERVER") : options.server;
    end = ".control";
  }
  if (url.empty()) {
    return Status(
        StatusCode::kInvalidArgument,
        "no server is named: use --server unix:PATH, --control unix:PATH or --control tls://HOST:PORT, or set TESSERA_SERVER");
  }
  if (end.empty() && url.starts_with(kTls)) {
    Result<LinkAddress> address = LinkAddress::Parse(url);
    if (!address.ok()) return address.status();
    return url;
  }
  const std::string path = UnixPathOf(url);
  if (path.empty() || path.find(',') != std::string::npos) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("'{}' is no address of a control API: vGPUs are changed at unix:PATH of the server's host, or at "
                              "--control tls://HOST:PORT",
                              Printable(url)));
  }
  return url + end;
}

namespace {

Result<ControlConnection> ConnectByTls(const std::string& url, const VgpuOptions& options) {
  Result<LinkAddress> address = LinkAddress::Parse(url);
  if (!address.ok()) return address.status();
  LinkOptions link;
  link.keys = {options.certificate, options.key, options.authority};
  Result<std::shared_ptr<TlsTunnel>> tunnel = TlsTunnel::Connect(*address, link, MonotonicNs() + kConnectNs);
  if (!tunnel.ok()) return tunnel.status();
  return ControlConnection{
      control::v1::VgpuService::NewStub(grpc::CreateInsecureChannelFromFd("control", (*tunnel)->TakeSocket().release())),
      *tunnel};
}

}  // namespace

Result<ControlConnection> ConnectControl(const std::string& url, const VgpuOptions& options) {
  if (url.starts_with(kTls)) return ConnectByTls(url, options);
  const std::string path = UnixPathOf(url);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(StatusCode::kInvalidArgument, fmt::format("the socket path {} is longer than {} bytes: choose a shorter one",
                                                            Printable(path), sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Status::FromErrno("cannot create a socket", errno);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const bool refused = errno == EACCES || errno == EPERM;
    const std::string what = fmt::format("no control API at {}: {}; ", Printable(path), strerror(errno));
    return refused ? Status(StatusCode::kPermissionDenied, what + "ask whoever runs the server (tesserad --socket-group)")
                   : Status(StatusCode::kUnavailable, what + "start tesserad, or correct the path");
  }
  RETURN_IF_ERROR(CheckServerUser(socket.get(), path));
  if (fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) return Status::FromErrno("cannot use a socket", errno);
  return ControlConnection{control::v1::VgpuService::NewStub(grpc::CreateInsecureChannelFromFd("control", socket.release())),
                           nullptr};
}

}  // namespace tessera
