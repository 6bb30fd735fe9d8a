// Frames on a connected socket. How a connection comes about is in tcp_connection.cc.
#include "protocol/link/tcp_link.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

#include "protocol/base/check.h"
#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/tcp_socket.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "a FrameHeader travels as it lies in memory");

// What is read ahead of the frame that is wanted: many small frames with one system call. A payload goes straight to its
// place whatever this is.
constexpr size_t kReadAheadBytes = size_t{64} << 10;

// How long an end that was closed waits for the other to take what was sent and close as well.
constexpr uint64_t kLingerNs = 1'000'000'000;

Status Closed() { return Status(StatusCode::kUnavailable, "the link was closed"); }

class TcpLink : public Link {
 public:
  TcpLink(UniqueFd socket, UniqueFd wake) : socket_(std::move(socket)), wake_(std::move(wake)), ahead_(kReadAheadBytes) {}
  ~TcpLink() override {
    Close();
    Linger();
  }

  Status Send(const FrameHeader& header, std::span<const std::byte> payload) override;
  Result<FrameHeader> Receive(const Place& place) override;
  void Close() override;
  void Drop() override {
    dropped_.store(true);
    Close();
    shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  // Fills `to` with what follows on the connection.
  Status Fill(std::span<std::byte> to);
  // Reads at least one byte: into `to` first, then into ahead_, which is empty. Returns how many in all.
  Result<size_t> Read(std::span<std::byte> to);
  // Waits until the socket can be read or the link is closed.
  void WaitReadable();
  // Discards what still comes until the other end has closed too, so that closing the socket takes back nothing of what
  // was sent: with unread data behind it a close is a reset.
  void Linger();

  const UniqueFd socket_;
  const UniqueFd wake_;  // an eventfd: readable once the link was closed
  std::atomic<uint64_t> closed_ns_{0};  // when; 0: not closed
  std::atomic<bool> dropped_{false};

  // Of the receiving thread.
  AdaptiveSpin spin_;
  std::vector<std::byte> ahead_;
  size_t ahead_begin_ = 0;
  size_t ahead_end_ = 0;
  bool at_end_ = false;
};

Status TcpLink::Send(const FrameHeader& header, std::span<const std::byte> payload) {
  CHECK(header.bytes == payload.size() && payload.size() <= kFrameBytesMax);
  iovec parts[2] = {{const_cast<FrameHeader*>(&header), sizeof(header)},
                    {const_cast<std::byte*>(payload.data()), payload.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (message.msg_iovlen != 0) {
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        // Woken by room, by Close() (a hang-up), or by the end of the connection.
        pollfd ready = {socket_.get(), POLLOUT, 0};
        poll(&ready, 1, -1);
        continue;
      }
      const Status lost = DescribeTcpLoss(errno);
      const bool closed = closed_ns_.load() != 0;
      Close();  // half a frame may be on its way: nothing can follow
      return closed ? Closed() : lost;
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

Result<FrameHeader> TcpLink::Receive(const Place& place) {
  FrameHeader header;
  RETURN_IF_ERROR(Fill(std::as_writable_bytes(std::span(&header, 1))));
  if (header.bytes > kFrameBytesMax) {
    return Status(StatusCode::kProtocolViolation, "the link brought a frame of " + std::to_string(header.bytes) + " bytes");
  }
  Result<std::span<std::byte>> to = place(header);
  if (!to.ok()) return to.status();
  CHECK(to->size() == header.bytes);
  RETURN_IF_ERROR(Fill(*to));
  return header;
}

Status TcpLink::Fill(std::span<std::byte> to) {
  while (!to.empty()) {
    if (ahead_begin_ != ahead_end_) {
      const size_t bytes = std::min(to.size(), ahead_end_ - ahead_begin_);
      std::memcpy(to.data(), ahead_.data() + ahead_begin_, bytes);
      ahead_begin_ += bytes;
      to = to.subspan(bytes);
      continue;
    }
    Result<size_t> got = Read(to);
    if (!got.ok()) return got.status();
    const size_t here = std::min(*got, to.size());
    ahead_begin_ = 0;
    ahead_end_ = *got - here;
    to = to.subspan(here);
  }
  return Status::Ok();
}

Result<size_t> TcpLink::Read(std::span<std::byte> to) {
  if (at_end_ || dropped_.load(std::memory_order_relaxed)) return Closed();
  iovec parts[2] = {{to.data(), to.size()}, {ahead_.data(), ahead_.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ssize_t got = -1;
  int error = 0;
  const auto ready = [&] {
    got = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    error = got < 0 ? errno : 0;
    return error != EAGAIN && error != EINTR;
  };
  while (!spin_.Spin(ready)) {
    // What had arrived when it was closed is still delivered, but a peer that goes on sending is not listened to for ever.
    if (closed_ns_.load() != 0) return Closed();
    WaitReadable();
  }
  if (const uint64_t closed_ns = closed_ns_.load(); closed_ns != 0 && MonotonicNs() > closed_ns + kLingerNs) return Closed();
  if (got > 0) return static_cast<size_t>(got);
  at_end_ = true;
  return got == 0 ? Closed() : DescribeTcpLoss(error);
}

void TcpLink::WaitReadable() {
  pollfd ready[2] = {{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  poll(ready, 2, -1);
}

void TcpLink::Close() {
  uint64_t expected = 0;
  if (!closed_ns_.compare_exchange_strong(expected, MonotonicNs())) return;
  // Not the direction to us: data that arrives after such a shutdown makes the kernel reset the connection, and what was
  // sent before would be lost.
  shutdown(socket_.get(), SHUT_WR);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void TcpLink::Linger() {
  const uint64_t deadline_ns = MonotonicNs() + kLingerNs;
  while (!at_end_ && !dropped_.load()) {
    const ssize_t got = recv(socket_.get(), ahead_.data(), ahead_.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return;
    if (got > 0) continue;
    pollfd ready = {socket_.get(), POLLIN, 0};
    poll(&ready, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000) + 1);
  }
}

}  // namespace

Result<std::unique_ptr<Link>> MakeTcpLink(UniqueFd socket) {
  RETURN_IF_ERROR(PrepareTcpSocket(socket.get()));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return Status::FromErrno("cannot make an event descriptor for a link", errno);
  return std::unique_ptr<Link>(std::make_unique<TcpLink>(std::move(socket), std::move(wake)));
}

}  // namespace tessera
