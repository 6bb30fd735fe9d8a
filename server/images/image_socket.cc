#include "server/images/image_socket.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/packet.h"

namespace tessera {
namespace {

enum class Action : uint32_t { kFind = 1, kOffer = 2 };

struct Message {
  Action action = Action::kFind;
  uint32_t padding = 0;
  ImageKey key;
  uint64_t bytes = 0;
};
// To kFind; the file is beside it.
struct Answer {
  std::byte word{};
};

}  // namespace

Result<UniqueFd> SocketImageCache::Find(const ImageKey& key, uint64_t bytes) {
  MutexLock lock(mutex_);
  if (!socket_.valid()) return Status(StatusCode::kUnavailable, "the server's images cannot be had");
  const uint64_t deadline_ns = MonotonicNs() + answer_ns_;
  Status status = SendPacket(socket_.get(), Message{Action::kFind, 0, key, bytes}, -1, deadline_ns);
  Answer answer;
  UniqueFd file;
  if (status.ok()) status = ReceivePacket(socket_.get(), deadline_ns, &answer, &file);
  if (status.ok() && !file.valid()) return Status(StatusCode::kNotFound, "no such image");
  if (status.ok()) return file;
  // An answer that comes late would be taken for that to the next question, about another image.
  LogInfo("the server's images cannot be had any more: {}", status.message());
  socket_.reset();
  return Status(StatusCode::kUnavailable, status.message());
}

void SocketImageCache::Offer(const ImageKey& key, uint64_t bytes, int file) {
  MutexLock lock(mutex_);
  if (!socket_.valid()) return;
  // Nothing is lost when the keeper has too much to do.
  const Status status = SendPacket(socket_.get(), Message{Action::kOffer, 0, key, bytes}, file, 0);
  if (!status.ok()) LogDebug("an image was not offered: {}", status.message());
}

Status ServeImages(int socket, const ImageService& service) {
  for (;;) {
    Message message;
    UniqueFd file;
    const Status received = ReceivePacket(socket, 0, &message, &file);
    if (received.code() == StatusCode::kTimedOut) return Status::Ok();  // nothing waits
    RETURN_IF_ERROR(received);
    if (message.action == Action::kFind && !file.valid()) {
      const Result<UniqueFd> found = service.find(message.key, message.bytes);
      // A worker has one question on the way, so its socket always has room.
      RETURN_IF_ERROR(SendPacket(socket, Answer{}, found.ok() ? found.value().get() : -1, 0));
    } else if (message.action == Action::kOffer && file.valid()) {
      service.offer(message.key, message.bytes, std::move(file));
    } else {
      return Status(StatusCode::kProtocolViolation, "a message about images that is none");
    }
  }
}

}  // namespace tessera
