#include "netaware/admin/control_client.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <grpcpp/create_channel_posix.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "programs/service_options.h"
#include "protocol/base/printable.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/server_user.h"

namespace tessera {
namespace {

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<std::string> ControlPath(const VgpuOptions& options) {
  std::string url = options.control;
  std::string end;
  if (url.empty() && options.server.empty()) url = Variable("TESSERA_CONTROL");
  if (url.empty()) {
    url = options.server.empty() ? Variable("TESSERA_SERVER") : options.server;
    end = ".control";
  }
  if (url.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "no server is named: use --server unix:PATH or --control unix:PATH, or set TESSERA_SERVER");
  }
  const std::string path = UnixPathOf(url);
  if (path.empty() || path.find(',') != std::string::npos) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("'{}' is no address of a control API: vGPUs are changed on the server's host, at unix:PATH", Printable(url)));
  }
  return path + end;
}

Result<std::unique_ptr<control::v1::VgpuService::Stub>> ConnectControl(const std::string& path) {
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
  return control::v1::VgpuService::NewStub(grpc::CreateInsecureChannelFromFd("control", socket.release()));
}

}  // namespace tessera
