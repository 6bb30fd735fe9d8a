#include "protocol/keeper/keeper_words.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "protocol/base/clock.h"

namespace tessera {
namespace {

constexpr uint64_t kSendTimeoutNs = 10'000'000'000;

}  // namespace

Status SendWord(int socket, const KeeperMessage& message, std::span<const int> fds, std::string_view text) {
  std::vector<std::byte> bytes(sizeof(message) + std::min(text.size(), KeeperMessage::kTextBytesMax));
  std::memcpy(bytes.data(), &message, sizeof(message));
  std::copy_n(std::as_bytes(std::span(text)).begin(), bytes.size() - sizeof(message), bytes.begin() + sizeof(message));
  return SendMessage(socket, bytes, fds, MonotonicNs() + kSendTimeoutNs);
}

Result<ReceivedWord> ReceiveWord(int socket, uint64_t deadline_ns) {
  Result<SocketMessage> got = ReceiveMessage(socket, sizeof(KeeperMessage) + KeeperMessage::kTextBytesMax, deadline_ns);
  if (!got.ok()) return got.status();
  ReceivedWord word;
  if (got->bytes.size() >= sizeof(KeeperMessage)) std::memcpy(&word.message, got->bytes.data(), sizeof(KeeperMessage));
  if (got->bytes.size() < sizeof(KeeperMessage) || word.message.version != KeeperMessage::kVersion) {
    return Status(StatusCode::kVersionMismatch,
                  "a process that keeps sessions and one that carries them are of different releases of tessera");
  }
  word.text.assign(reinterpret_cast<const char*>(got->bytes.data()) + sizeof(KeeperMessage),
                   got->bytes.size() - sizeof(KeeperMessage));
  word.fds = std::move(got->fds);
  return word;
}

std::string StartText::Text() const { return std::string(has_listener ? "l" : "-") + (has_owner ? "o" : "-") + listened; }

StartText StartText::From(std::string_view text) {
  if (text.size() < 2) return {};
  return {text[0] == 'l', text[1] == 'o', std::string(text.substr(2))};
}

Result<KeptSession> KeptSession::From(ReceivedWord word) {
  if (word.fds.size() != 4 && word.fds.size() != 5) {
    return Status(StatusCode::kInternal, "a session was handed over with " + std::to_string(word.fds.size()) + " descriptors");
  }
  KeptSession session;
  session.number = word.message.session;
  session.page = std::move(word.fds[0]);
  session.socket = std::move(word.fds[1]);
  session.files = {std::move(word.fds[2]), std::move(word.fds[3])};
  if (word.fds.size() == 5) session.peer_process = std::move(word.fds[4]);
  return session;
}

Status SendSession(int socket, uint64_t number, int page, int channel_socket, const Channel::Files& files, int peer_process) {
  const int fds[] = {page, channel_socket, files.rings.get(), files.staging.get(), peer_process};
  return SendWord(socket, {.word = KeeperWord::kSession, .session = number}, std::span(fds).first(peer_process < 0 ? 4 : 5));
}

}  // namespace tessera
