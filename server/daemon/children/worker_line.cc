#include "server/daemon/children/worker_line.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <span>
#include <type_traits>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

// Longer than the daemon waits for processes to end (Supervisor::kRoomWaitNs).
constexpr uint64_t kRoomAnswerNs = 10'000'000'000;

static_assert(std::is_trivially_copyable_v<WorkerSays>);

struct RoomAnswer {
  uint64_t made;
  uint64_t spare_bytes;
};

Status Say(int line, const WorkerSays& says) {
  return SendMessage(line, std::as_bytes(std::span(&says, 1)), {}, MonotonicNs() + kRoomAnswerNs);
}

// The daemon that does not hear it thinks that this process takes long, no more.
void SayOnce(int line, const WorkerSays& says) {
  if (const Status said = Say(line, says); !said.ok()) LogDebug("the daemon was not told: {}", said.message());
}

}  // namespace

Status SendWish(int line, const ClientHello& hello) {
  Encoder encoder(kControlMessageBytesMax);
  hello.Encode(encoder);
  return SendMessage(line, encoder.bytes(), {}, 0);
}

Status SendClient(int line, int connection) {
  const std::array<std::byte, 1> word{};
  return SendMessage(line, word, std::array{connection}, 0);
}

Status SendRoom(int line, bool made, uint64_t spare_bytes) {
  const RoomAnswer answer{made ? uint64_t{1} : uint64_t{0}, spare_bytes};
  return SendMessage(line, std::as_bytes(std::span(&answer, 1)), {}, 0);
}

Result<WorkerSays> HearWorker(int line) {
  Result<SocketMessage> message = ReceiveMessage(line, sizeof(WorkerSays), 0);
  if (!message.ok()) return message.status();
  WorkerSays says;
  if (message->bytes.size() != sizeof(says) || !message->fds.empty()) {
    return Status(StatusCode::kProtocolViolation, "a worker said something that means nothing");
  }
  std::memcpy(static_cast<void*>(&says), message->bytes.data(), sizeof(says));
  switch (says.word) {
    case WorkerWord::kReady:
    case WorkerWord::kNeedsRoom:
    case WorkerWord::kAwaitsEnds:
    case WorkerWord::kBegun:
    case WorkerWord::kHoldsHost:
    case WorkerWord::kMakesContext: return says;
  }
  return Status(StatusCode::kProtocolViolation, "a worker said a word that means nothing");
}

Result<ClientHello> ReceiveWish(int line) {
  Result<SocketMessage> message = ReceiveMessage(line, kControlMessageBytesMax, kNoDeadline);
  return message.ok() ? ClientHello::Decode(message->bytes) : message.status();
}

Result<UniqueFd> ReceiveClient(int line) {
  Result<SocketMessage> message = ReceiveMessage(line, 1, kNoDeadline);
  if (!message.ok()) return message.status();
  if (message->fds.size() != 1) return Status(StatusCode::kInternal, "the daemon sent no connection");
  return std::move(message->fds.front());
}

void SayMakesContext(int line, const GpuUuid& gpu) { SayOnce(line, {.word = WorkerWord::kMakesContext, .gpu = gpu}); }

void SayReady(int line, uint64_t free_bytes, const GpuUuid& gpu) {
  SayOnce(line, {.word = WorkerWord::kReady, .bytes = free_bytes, .gpu = gpu});
}

void SayBegun(int line) { SayOnce(line, {.word = WorkerWord::kBegun}); }

void CloseLine(int line) { shutdown(line, SHUT_RDWR); }

bool ClientWaits(int line) {
  pollfd ready = {line, POLLIN, 0};
  return poll(&ready, 1, 0) > 0;
}

bool LineRoomMaker::HoldHost(uint64_t bytes) {
  MutexLock lock(host_mutex_);
  const uint64_t pieces = bytes > UINT64_MAX - kHostPiece ? bytes : (bytes + kHostPiece - 1) / kHostPiece * kHostPiece;
  const bool about = pieces == host_bytes_ || (bytes != 0 && pieces + kHostPiece >= host_bytes_);
  if (bytes <= host_bytes_ && about) return true;
  for (const uint64_t wanted : {pieces, bytes}) {
    if (!Ask({.word = WorkerWord::kHoldsHost, .bytes = wanted}).made) continue;
    host_bytes_ = wanted;
    return true;
  }
  return bytes <= host_bytes_;
}

LineRoomMaker::Answer LineRoomMaker::Ask(const WorkerSays& says) {
  MutexLock lock(mutex_);
  if (silent_) return {};
  if (!Say(line_, says).ok()) return {};
  Result<SocketMessage> message = ReceiveMessage(line_, sizeof(RoomAnswer), MonotonicNs() + kRoomAnswerNs);
  silent_ = !message.ok();
  RoomAnswer answer{};
  if (silent_ || message->bytes.size() != sizeof(answer)) return {};
  std::memcpy(&answer, message->bytes.data(), sizeof(answer));
  return {answer.made != 0, answer.spare_bytes};
}

}  // namespace tessera
