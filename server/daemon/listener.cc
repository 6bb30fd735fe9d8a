#include "server/daemon/listener.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr std::string_view kScheme = "unix:";

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Whether somebody answers on the socket file. A socket of another type answers EPROTOTYPE: it is alive as well.
bool IsLive(const std::string& path) {
  UniqueFd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = AddressOf(path);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

Status RemoveStale(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Status::Ok();
    return Status::FromErrno("cannot look at " + path, errno);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument, path + " exists and is not a socket: choose another path or remove it");
  }
  if (IsLive(path)) {
    return Status(StatusCode::kUnavailable, "another server listens on " + path + ": stop it or choose another path");
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return Status::FromErrno("cannot remove the stale socket " + path, errno);
  LogInfo("removed the stale socket {}", path);
  return Status::Ok();
}

}  // namespace

Result<std::string> ParseListenAddress(std::string_view address) {
  if (!address.starts_with(kScheme)) {
    return Status(StatusCode::kInvalidArgument, "cannot listen on '" + std::string(address) + "': expected unix:PATH");
  }
  std::string path(address.substr(kScheme.size()));
  if (path.empty()) return Status(StatusCode::kInvalidArgument, "the path after unix: is empty");
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Status(StatusCode::kInvalidArgument, "the socket path " + path + " is longer than 107 bytes");
  }
  return path;
}

Result<Listener> Listener::Bind(const std::string& path) {
  RETURN_IF_ERROR(RemoveStale(path));
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status::FromErrno("cannot create a socket", errno);
  const sockaddr_un address = AddressOf(path);
  // The mode comes from the umask at bind time, so that there is no moment at which others may connect.
  const mode_t before = umask(0177);
  const int bound = bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int bind_error = errno;
  umask(before);
  if (bound != 0) return Status::FromErrno("cannot bind " + path, bind_error);
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return Status::FromErrno("cannot look at " + path, errno);
  if (listen(socket.get(), kBacklog) != 0) {
    const int listen_error = errno;
    unlink(path.c_str());
    return Status::FromErrno("cannot listen on " + path, listen_error);
  }
  return Listener(std::move(socket), path, info.st_dev, info.st_ino);
}

Listener::~Listener() { Close(); }

UniqueFd Listener::Accept(pid_t* peer_pid) {
  UniqueFd connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) {
    if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) LogWarning("cannot accept a client: errno {}", errno);
    return {};
  }
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    LogWarning("cannot tell who connected: errno {}", errno);
    return {};
  }
  if (peer.uid != geteuid() && peer.uid != 0) {
    LogWarning("refused a client of user {}: this server belongs to user {}", peer.uid, geteuid());
    return {};
  }
  *peer_pid = peer.pid;
  return connection;
}

void Listener::Close() {
  if (!socket_.valid()) return;
  struct stat info {};
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) unlink(path_.c_str());
  socket_.reset();
}

}  // namespace tessera
