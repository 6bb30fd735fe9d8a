#include "server/images/image_socket.h"

#include <array>
#include <cstring>
#include <span>
#include <type_traits>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

enum class Action : uint32_t { kFind = 1, kOffer = 2 };

struct Message {
  Action action = Action::kFind;
  uint32_t padding = 0;
  ImageKey key;
  uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Message>);

Status Send(int socket, const Message& message, int fd, uint64_t deadline_ns) {
  return SendMessage(socket, std::as_bytes(std::span(&message, 1)), std::span(&fd, fd >= 0 ? 1 : 0), deadline_ns);
}

}  // namespace

Result<UniqueFd> SocketImageCache::Find(const ImageKey& key, uint64_t bytes) {
  MutexLock lock(mutex_);
  if (!socket_.valid()) return Status(StatusCode::kUnavailable, "the server's images cannot be had");
  const uint64_t deadline_ns = MonotonicNs() + answer_ns_;
  Status status = Send(socket_.get(), {Action::kFind, 0, key, bytes}, -1, deadline_ns);
  if (status.ok()) {
    Result<SocketMessage> answer = ReceiveMessage(socket_.get(), 1, deadline_ns);
    if (answer.ok() && answer->fds.size() == 1) return std::move(answer->fds[0]);
    if (answer.ok()) return Status(StatusCode::kNotFound, "no such image");
    status = answer.status();
  }
  // An answer that comes late would be taken for that to the next question, about another image.
  LogInfo("the server's images cannot be had any more: {}", status.message());
  socket_.reset();
  return Status(StatusCode::kUnavailable, status.message());
}

void SocketImageCache::Offer(const ImageKey& key, uint64_t bytes, int file) {
  MutexLock lock(mutex_);
  if (!socket_.valid()) return;
  // Nothing is lost when the keeper has too much to do.
  const Status status = Send(socket_.get(), {Action::kOffer, 0, key, bytes}, file, 0);
  if (!status.ok()) LogDebug("an image was not offered: {}", status.message());
}

Status ServeImages(int socket, const ImageService& service) {
  for (;;) {
    Result<SocketMessage> received = ReceiveMessage(socket, sizeof(Message), 0);
    if (!received.ok()) return received.status().code() == StatusCode::kTimedOut ? Status::Ok() : received.status();
    Message message;
    const bool whole = received->bytes.size() == sizeof(message);
    if (whole) std::memcpy(static_cast<void*>(&message), received->bytes.data(), sizeof(message));
    if (whole && message.action == Action::kFind && received->fds.empty()) {
      const Result<UniqueFd> file = service.find(message.key, message.bytes);
      const std::array<std::byte, 1> word{};
      const int fd = file.ok() ? file.value().get() : -1;
      // A worker has one question on the way, so its socket always has room.
      RETURN_IF_ERROR(SendMessage(socket, word, std::span(&fd, fd >= 0 ? 1 : 0), 0));
    } else if (whole && message.action == Action::kOffer && received->fds.size() == 1) {
      service.offer(message.key, message.bytes, std::move(received->fds[0]));
    } else {
      return Status(StatusCode::kProtocolViolation, "a message about images that is none");
    }
  }
}

}  // namespace tessera
