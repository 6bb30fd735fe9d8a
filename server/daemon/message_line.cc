#include "server/daemon/message_line.h"

#include <errno.h>
#include <fcntl.h>

#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

// Its other end has only to read, or whoever else has descriptors on their way.
bool MeansLater(const Status& sent) {
  return sent.code() == StatusCode::kTimedOut || sent.code() == StatusCode::kResourceExhausted;
}

}  // namespace

void MessageLine::Open(UniqueFd socket) {
  socket_ = std::move(socket);
  kept_.clear();
}

pollfd MessageLine::watched() const { return {socket_.get(), static_cast<short>(kept_.empty() ? POLLIN : POLLIN | POLLOUT), 0}; }

Status MessageLine::Send(std::span<const std::byte> message, std::span<const int> fds) {
  if (kept_.empty()) {
    const Status sent = SendMessage(socket_.get(), message, fds, 0);
    if (!MeansLater(sent)) return sent;
  }
  Kept kept{{message.begin(), message.end()}, {}};
  for (const int fd : fds) {
    kept.fds.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!kept.fds.back().valid()) return Status::FromErrno("cannot keep a descriptor until there is room", errno);
  }
  kept_.push_back(std::move(kept));
  return Status::Ok();
}

void MessageLine::Flush() {
  while (!kept_.empty()) {
    std::vector<int> fds;
    for (const UniqueFd& fd : kept_.front().fds) fds.push_back(fd.get());
    const Status sent = SendMessage(socket_.get(), kept_.front().bytes, fds, 0);
    if (MeansLater(sent)) return;
    // Where the other end is closed its owner hears of that when it reads.
    if (!sent.ok() && sent.code() != StatusCode::kUnavailable) LogError("a message that was kept is lost: {}", sent.message());
    kept_.pop_front();
  }
}

}  // namespace tessera
