#include "protocol/link/tcp/tcp_stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "protocol/base/clock.h"

namespace tessera {
namespace {

// Without traffic: the first probe after so long, then one every interval.
constexpr int kProbeAfterS = 2;
constexpr int kProbeEveryS = 2;

// How long an end that was closed waits for the other to take what was sent and close as well.
constexpr uint64_t kLingerNs = 1'000'000'000;

// For poll(2): the rest of the time until `deadline_ns`, rounded up; -1 for ever.
int MillisecondsTo(uint64_t deadline_ns, uint64_t now_ns) {
  constexpr uint64_t kPollMsMax = 3'600'000;
  if (deadline_ns == kNoDeadline) return -1;
  return static_cast<int>(std::min<uint64_t>((deadline_ns - now_ns) / 1'000'000 + 1, kPollMsMax));
}

// To be read, or an error.
bool HasSomething(int socket) {
  pollfd ready = {socket, POLLIN, 0};
  return poll(&ready, 1, 0) > 0;
}

Status Prepare(int socket) {
  constexpr int kOn = 1;
  constexpr int kProbes = kTcpSilenceMsMax / 1000 / kProbeEveryS;
  constexpr struct {
    int level, option, value;
  } kOptions[] = {{IPPROTO_TCP, TCP_NODELAY, kOn},           {SOL_SOCKET, SO_KEEPALIVE, kOn},
                  {IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfterS}, {IPPROTO_TCP, TCP_KEEPINTVL, kProbeEveryS},
                  {IPPROTO_TCP, TCP_KEEPCNT, kProbes},       {IPPROTO_TCP, TCP_USER_TIMEOUT, kTcpSilenceMsMax}};
  for (const auto& option : kOptions) {
    if (setsockopt(socket, option.level, option.option, &option.value, sizeof(option.value)) != 0) {
      return Status::FromErrno("cannot prepare a TCP connection", errno);
    }
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<TcpStream>> TcpStream::Make(UniqueFd socket) {
  RETURN_IF_ERROR(Prepare(socket.get()));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return Status::FromErrno("cannot make an event descriptor for a link", errno);
  return std::unique_ptr<TcpStream>(new TcpStream(std::move(socket), std::move(wake)));
}

TcpStream::~TcpStream() {
  Stop();
  EndSending();
  if (!at_end_ && !dropped_.load()) LingerOnSocket(socket_.get(), stopped_ns_.load() + kLingerNs);
}

Status TcpStream::Send(std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  while (message.msg_iovlen != 0) {
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      if (stopped()) return LinkClosed();
      if (error != EAGAIN) return DescribeTcpLoss(error);
      Await(POLLOUT, kNoDeadline);
      continue;
    }
    size_t left = static_cast<size_t>(sent);
    while (message.msg_iovlen != 0 && left >= message.msg_iov->iov_len) {
      left -= message.msg_iov->iov_len;
      ++message.msg_iov;
      --message.msg_iovlen;
    }
    if (message.msg_iovlen == 0) break;
    message.msg_iov->iov_base = static_cast<std::byte*>(message.msg_iov->iov_base) + left;
    message.msg_iov->iov_len -= left;
  }
  return Status::Ok();
}

Result<size_t> TcpStream::Receive(std::span<iovec> parts) {
  if (at_end_ || dropped_.load(std::memory_order_relaxed)) return LinkClosed();
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  ssize_t got = -1;
  int error = 0;
  bool looked = false;
  const auto ready = [&] {
    // Each recvmsg() holds the socket's lock, which the sending thread, and the kernel with what has just arrived, would have to
    // wait for again and again; poll() does not.
    if (std::exchange(looked, true) && !HasSomething(socket_.get())) return false;
    got = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    error = got < 0 ? errno : 0;
    return error != EAGAIN && error != EINTR;
  };
  while (!spin_.Spin(ready)) {
    // What had arrived when it was stopped is still delivered, but a peer that goes on sending is not listened to for ever.
    if (stopped()) return LinkClosed();
    if (!Await(POLLIN, deadline_ns_)) return Status(StatusCode::kTimedOut, "the peer did not answer in time");
  }
  if (const uint64_t stopped_ns = stopped_ns_.load(); stopped_ns != 0 && MonotonicNs() > stopped_ns + kLingerNs)
    return LinkClosed();
  if (got > 0) return static_cast<size_t>(got);
  at_end_ = true;
  return got == 0 ? LinkClosed() : DescribeTcpLoss(error);
}

bool TcpStream::Await(short events, uint64_t deadline_ns) {
  const uint64_t now_ns = deadline_ns == kNoDeadline ? 0 : MonotonicNs();
  if (now_ns >= deadline_ns) return false;
  pollfd ready[2] = {{socket_.get(), events, 0}, {wake_.get(), POLLIN, 0}};
  poll(ready, 2, MillisecondsTo(deadline_ns, now_ns));
  return true;
}

void TcpStream::Stop() {
  uint64_t expected = 0;
  if (!stopped_ns_.compare_exchange_strong(expected, MonotonicNs())) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void TcpStream::Drop() {
  dropped_.store(true);
  Stop();
  shutdown(socket_.get(), SHUT_RDWR);
}

// Not the direction to us: data that arrives after such a shutdown makes the kernel reset the connection, and what was sent
// before would be lost.
void TcpStream::EndSending() { shutdown(socket_.get(), SHUT_WR); }

Status LinkClosed() { return Status(StatusCode::kUnavailable, "the link was closed"); }

void LingerOnSocket(int socket) { LingerOnSocket(socket, MonotonicNs() + kLingerNs); }

void LingerOnSocket(int socket, uint64_t deadline_ns) {
  std::byte discarded[4096];
  for (;;) {
    const ssize_t got = recv(socket, discarded, sizeof(discarded), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (MonotonicNs() >= deadline_ns) return;
    if (got < 0 && !AwaitSocket(socket, POLLIN, deadline_ns).ok()) return;
  }
}

Status AwaitSocket(int socket, short events, uint64_t deadline_ns) {
  for (;;) {
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return Status(StatusCode::kTimedOut, "the peer did not answer in time");
    pollfd ready = {socket, events, 0};
    const int count = poll(&ready, 1, MillisecondsTo(deadline_ns, now_ns));
    if (count > 0) return Status::Ok();
    if (count < 0 && errno != EINTR) return Status::FromErrno("cannot wait for a socket", errno);
  }
}

Status DescribeTcpLoss(int error) {
  if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
    return Status(StatusCode::kUnavailable, "the other host does not answer any more");
  }
  if (error == EPIPE || error == ECONNRESET) return Status(StatusCode::kUnavailable, "the peer closed the connection");
  return Status(StatusCode::kUnavailable, std::string("the connection to the other host failed: ") + std::strerror(error));
}

}  // namespace tessera
