#include "protocol/channel/unix_socket.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Status(StatusCode::kInvalidArgument, "the path of the socket is empty or has a zero byte");
  }
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(StatusCode::kInvalidArgument, "the socket path " + path + " is longer than " +
                                                    std::to_string(sizeof(address.sun_path) - 1) +
                                                    " bytes: choose a shorter one");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<UniqueFd> NewSocket(int flags, SocketKind kind = SocketKind::kMessages) {
  const int type = kind == SocketKind::kMessages ? SOCK_SEQPACKET : SOCK_STREAM;
  UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | flags, 0));
  if (!socket.valid()) return Status::FromErrno("cannot create a socket", errno);
  return socket;
}

// Whether somebody answers on the socket file. A socket of another type answers EPROTOTYPE: it is alive as well.
bool IsLive(const sockaddr_un& address) {
  Result<UniqueFd> probe = NewSocket(SOCK_NONBLOCK);
  if (!probe.ok()) return true;
  if (connect(probe->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

Status RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Status::Ok() : Status::FromErrno("cannot look at " + path, errno);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument, path + " exists and is not a socket: choose another path or remove it");
  }
  if (IsLive(address)) {
    return Status(StatusCode::kUnavailable, "another server listens on " + path + ": stop it or choose another path");
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return Status::FromErrno("cannot remove the stale socket " + path, errno);
  LogInfo("removed the stale socket {}", path);
  return Status::Ok();
}

// Waits for `events` or the end of the connection. kTimedOut at the deadline.
Status PollUntil(int socket, short events, uint64_t deadline_ns) {
  for (;;) {
    int timeout_ms = -1;
    if (deadline_ns != kNoDeadline) {
      const uint64_t now_ns = MonotonicNs();
      const uint64_t left_ns = now_ns < deadline_ns ? deadline_ns - now_ns : 0;
      timeout_ms = static_cast<int>(std::min<uint64_t>((left_ns + 999'999) / 1'000'000, 3'600'000));
    }
    pollfd poll_fd{socket, events, 0};
    const int ready = poll(&poll_fd, 1, timeout_ms);
    if (ready > 0) return Status::Ok();
    if (ready < 0 && errno != EINTR) return Status::FromErrno("cannot wait for a socket", errno);
    if (deadline_ns != kNoDeadline && MonotonicNs() >= deadline_ns) {
      return Status(StatusCode::kTimedOut, "the peer did not answer in time");
    }
  }
}

Status PeerGone() { return Status(StatusCode::kUnavailable, "the peer closed the connection"); }

}  // namespace

// --- UnixListener ---

Result<UnixListener> UnixListener::Bind(const std::string& path, const SocketAccess& access, SocketKind kind) {
  Result<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.status();
  RETURN_IF_ERROR(RemoveStale(path, *address));
  Result<UniqueFd> socket = NewSocket(SOCK_NONBLOCK, kind);
  if (!socket.ok()) return socket.status();
  // The mode comes from the umask at bind time; nobody connects before listen().
  const mode_t before = umask(0777 & ~access.mode);
  const int bound = bind(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un));
  const int bind_error = errno;
  umask(before);
  if (bound != 0) return Status::FromErrno("cannot bind " + path, bind_error);
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return Status::FromErrno("cannot look at " + path, errno);
  constexpr mode_t kWriteOfOthers = 0022;
  UnixListener listener(std::move(*socket), path, info.st_dev, info.st_ino, (access.mode & kWriteOfOthers) == 0);
  if (access.group && lchown(path.c_str(), static_cast<uid_t>(-1), *access.group) != 0) {
    const Status failed = Status::FromErrno("cannot give " + path + " its group", errno);
    return errno != EPERM ? failed
                          : Status(StatusCode::kPermissionDenied,
                                   failed.message() + ": this user has to be in that group, or root to start the server");
  }
  if (listen(listener.fd(), kBacklog) != 0) return Status::FromErrno("cannot listen on " + path, errno);
  return listener;
}

UnixListener::~UnixListener() { Close(); }

Result<UniqueFd> UnixListener::Accept() { return Accept(fd(), own_user_); }
Result<UniqueFd> UnixListener::Accept(int listener) { return Accept(listener, true); }

Result<UniqueFd> UnixListener::Accept(int listener, bool own_user) {
  UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) {
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) {
      return Status(StatusCode::kTimedOut, "no client waits");
    }
    return Status::FromErrno("cannot accept a client", errno);
  }
  if (own_user) RETURN_IF_ERROR(CheckPeerUser(connection.get()));
  return connection;
}

void UnixListener::Close() {
  if (!socket_.valid()) return;
  RemoveFile();
  socket_.reset();
}

void UnixListener::RemoveFile() const {
  struct stat info {};
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) unlink(path_.c_str());
}

// --- connections ---

namespace {

Result<UniqueFd> Connect(const std::string& path, UniqueFd socket) {
  Result<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.status();
  int connected = 0;
  do {
    connected = connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un));
  } while (connected != 0 && errno == EINTR);
  if (connected == 0) return socket;
  switch (errno) {
    case ENOENT:
    case ENOTDIR: return Status(StatusCode::kNotFound, "there is no socket " + path + ": start the server, or correct the path");
    case EACCES:
      return Status(StatusCode::kPermissionDenied, "not allowed to use the socket " + path +
                                                       ": it belongs to another user; run as that user or start "
                                                       "a server of your own");
    case ECONNREFUSED:
      if (struct stat info{}; stat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
        return Status(StatusCode::kNotFound, path + " is not a socket: correct the path");
      }
      return Status(StatusCode::kUnavailable, "nobody listens on the socket " + path + ": its server has ended; start it again");
    case EPROTOTYPE: return Status(StatusCode::kInvalidArgument, path + " is a socket of another program: correct the path");
    case EAGAIN:
      return Status(StatusCode::kTimedOut, "the server at the socket " + path +
                                               " takes no connections: it is stopped or overloaded; look after it or "
                                               "start it again");
    default: return Status::FromErrno("cannot connect to " + path, errno);
  }
}

}  // namespace

Result<UniqueFd> ConnectUnix(const std::string& path) {
  Result<UniqueFd> socket = NewSocket(0);
  if (!socket.ok()) return socket.status();
  // A server that is stopped takes nobody from its queue, and connect() waits when that is full; this is its time limit.
  const timeval limit{kConnectSecondsMax, 0};
  setsockopt(socket->get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  return Connect(path, std::move(*socket));
}

Result<UniqueFd> TryConnectUnix(const std::string& path) {
  Result<UniqueFd> socket = NewSocket(SOCK_NONBLOCK);
  if (!socket.ok()) return socket.status();
  return Connect(path, std::move(*socket));
}

Result<std::pair<UniqueFd, UniqueFd>> MakeSocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return Status::FromErrno("cannot create a socket", errno);
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<PeerCredentials> PeerOf(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return Status::FromErrno("cannot tell who is at the other end of a socket", errno);
  }
  return PeerCredentials{peer.pid, peer.uid, peer.gid};
}

Status CheckPeerUser(int socket) {
  Result<PeerCredentials> peer = PeerOf(socket);
  if (!peer.ok()) return peer.status();
  if (peer->uid == geteuid() || peer->uid == 0) return Status::Ok();
  return Status(StatusCode::kPermissionDenied,
                "the peer runs as user " + std::to_string(peer->uid) + ", this side as user " + std::to_string(geteuid()));
}

Status ExplainHangUp(int socket, const Status& status) {
  Result<PeerCredentials> server = PeerOf(socket);
  if (status.code() != StatusCode::kUnavailable || !server.ok() || server->uid == geteuid() || geteuid() == 0) return status;
  return Status(StatusCode::kPermissionDenied, "not allowed to use the server: it runs as user " + std::to_string(server->uid) +
                                                   ", this program as user " + std::to_string(geteuid()) +
                                                   "; run as that user or start a server of your own");
}

// --- messages ---

Result<size_t> PeekMessage(int socket, std::span<std::byte> start) {
  for (;;) {
    const ssize_t size = recv(socket, start.data(), start.size(), MSG_PEEK | MSG_DONTWAIT);
    if (size > 0) return static_cast<size_t>(size);
    if (size == 0 || errno == ECONNRESET || errno == ENOTCONN) return PeerGone();
    if (errno == EAGAIN) return Status(StatusCode::kTimedOut, "no message waits");
    if (errno != EINTR) return Status::FromErrno("cannot receive from the peer", errno);
  }
}

Status SendMessage(int socket, std::span<const std::byte> message, std::span<const int> fds, uint64_t deadline_ns) {
  if (fds.size() > kSocketFdsMax) return Status(StatusCode::kInvalidArgument, "too many descriptors for one message");
  iovec data{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kSocketFdsMax * sizeof(int))] = {};
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  for (;;) {
    const ssize_t sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return Status::Ok();  // a datagram goes as a whole
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return PeerGone();
    if (errno == EMSGSIZE) {
      return Status(StatusCode::kInvalidArgument,
                    "a message of " + std::to_string(message.size()) + " bytes is too large for the socket");
    }
    if (errno != EAGAIN && errno != ETOOMANYREFS) return Status::FromErrno("cannot send to the peer", errno);
    if (errno == ETOOMANYREFS) {
      return Status(StatusCode::kResourceExhausted, "too many descriptors are on their way to the peer");
    }
    RETURN_IF_ERROR(PollUntil(socket, POLLOUT, deadline_ns));
  }
}

Result<SocketMessage> ReceiveMessage(int socket, size_t bytes_max, uint64_t deadline_ns, FromSocket how) {
  SocketMessage message;
  bool reset = false;
  for (;;) {
    // The size first, so that memory is taken for what there is and not for what there may be.
    const ssize_t size = recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (size < 0) {
      if (errno == EINTR) continue;
      // That the peer closed with messages unread is reported once, before what it said itself.
      if (errno == ECONNRESET && !reset) {
        reset = true;
        continue;
      }
      if (errno == ECONNRESET || errno == ENOTCONN) return PeerGone();
      if (errno != EAGAIN) return Status::FromErrno("cannot receive from the peer", errno);
      if (deadline_ns == 0) return Status(StatusCode::kTimedOut, "no message waits");
      RETURN_IF_ERROR(PollUntil(socket, POLLIN, deadline_ns));
      continue;
    }
    if (size == 0) return PeerGone();
    if (static_cast<size_t>(size) > bytes_max) {
      return Status(StatusCode::kProtocolViolation, "the peer sent a message of " + std::to_string(size) + " bytes");
    }
    message.bytes.resize(static_cast<size_t>(size));
    iovec data{message.bytes.data(), message.bytes.size()};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(kSocketFdsMax * sizeof(int))] = {};
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    const ssize_t received =
        recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | (how == FromSocket::kLeave ? MSG_PEEK : 0));
    if (received < 0) {
      if (errno == EINTR || errno == EAGAIN || errno == ECONNRESET) continue;  // the next look finds out
      return Status::FromErrno("cannot receive from the peer", errno);
    }
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
        message.fds.emplace_back(fd);
      }
    }
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
      return Status(StatusCode::kProtocolViolation,
                    "a message of the peer lost descriptors on its way: too many of them, or too many open files here");
    }
    return message;
  }
}

void DropMessage(int socket) { [[maybe_unused]] const ssize_t got = recv(socket, nullptr, 0, MSG_DONTWAIT); }

bool SocketHungUp(int socket) {
  pollfd poll_fd{socket, POLLRDHUP, 0};
  const int ready = poll(&poll_fd, 1, 0);
  return ready > 0 && (poll_fd.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL)) != 0;
}

}  // namespace tessera
