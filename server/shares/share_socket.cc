#include "server/shares/share_socket.h"

#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

enum class Action : uint32_t { kPublish = 1, kRevoke = 2, kFetch = 3 };

struct Question {
  Action action = Action::kFetch;
  uint32_t padding = 0;
  ShareToken token;
  ShareFacts facts;  // kPublish
};
struct Answer {
  uint32_t code = 0;  // a StatusCode
  uint32_t padding = 0;
  ShareFacts facts;  // kFetch
};
static_assert(std::is_trivially_copyable_v<Question> && std::is_trivially_copyable_v<Answer>);

template <typename T>
Status Send(int socket, const T& message, int fd, uint64_t deadline_ns) {
  return SendMessage(socket, std::as_bytes(std::span(&message, 1)), std::span(&fd, fd >= 0 ? 1 : 0), deadline_ns);
}

// One message of exactly this type, with at most one descriptor.
template <typename T>
Status Receive(int socket, uint64_t deadline_ns, T* message, UniqueFd* fd) {
  Result<SocketMessage> received = ReceiveMessage(socket, sizeof(T), deadline_ns);
  if (!received.ok()) return received.status();
  if (received->bytes.size() != sizeof(T) || received->fds.size() > 1) {
    return Status(StatusCode::kProtocolViolation, "a message about shares that is none");
  }
  std::memcpy(static_cast<void*>(message), received->bytes.data(), sizeof(T));
  if (!received->fds.empty()) *fd = std::move(received->fds[0]);
  return Status::Ok();
}

}  // namespace

template <typename Question, typename Answer>
Status SocketShareBroker::Ask(const Question& question, int fd, Answer* answer, UniqueFd* passed) {
  if (!socket_.valid()) return Status(StatusCode::kUnavailable, "the server's table of shared objects does not answer");
  const uint64_t deadline_ns = MonotonicNs() + answer_ns_;
  Status status = Send(socket_.get(), question, fd, deadline_ns);
  if (status.ok()) status = Receive(socket_.get(), deadline_ns, answer, passed);
  // An answer that comes late would be taken for that to the next question, about another object.
  if (!status.ok()) socket_.reset();
  return status;
}

Status SocketShareBroker::Publish(const ShareToken& token, const ShareFacts& facts, int fd) {
  MutexLock lock(mutex_);
  Answer answer;
  UniqueFd none;
  RETURN_IF_ERROR(Ask(Question{Action::kPublish, 0, token, facts}, fd, &answer, &none));
  const auto code = static_cast<StatusCode>(answer.code);
  return code == StatusCode::kOk ? Status::Ok() : Status(code, "the server does not share the object");
}

void SocketShareBroker::Revoke(const ShareToken& token) {
  MutexLock lock(mutex_);
  Answer answer;
  UniqueFd none;
  const Status status = Ask(Question{Action::kRevoke, 0, token, {}}, -1, &answer, &none);
  if (!status.ok()) LogDebug("a share was not taken back: {}", status.message());
}

Result<Share> SocketShareBroker::Fetch(const ShareToken& token) {
  MutexLock lock(mutex_);
  Answer answer;
  Share share;
  RETURN_IF_ERROR(Ask(Question{Action::kFetch, 0, token, {}}, -1, &answer, &share.fd));
  if (const auto code = static_cast<StatusCode>(answer.code); code != StatusCode::kOk) {
    return Status(code, "no session of this server shares anything under this handle");
  }
  share.facts = answer.facts;
  return share;
}

Status ServeShares(int socket, uint64_t session, ShareTable& table) {
  for (;;) {
    Question question;
    UniqueFd fd;
    const Status received = Receive(socket, 0, &question, &fd);
    if (received.code() == StatusCode::kTimedOut) return Status::Ok();  // nothing waits
    RETURN_IF_ERROR(received);
    Answer answer;
    int passed = -1;
    switch (question.action) {
      case Action::kPublish:
        answer.code = static_cast<uint32_t>(table.Add(session, question.token, question.facts, std::move(fd)).code());
        break;
      case Action::kRevoke: table.Remove(session, question.token); break;
      case Action::kFetch:
        if (const ShareTable::Entry* entry = table.Find(question.token)) {
          answer.facts = entry->facts;
          passed = entry->fd.get();
        } else {
          answer.code = static_cast<uint32_t>(StatusCode::kNotFound);
        }
        break;
      default: return Status(StatusCode::kProtocolViolation, "a question about shares that is none");
    }
    // A worker has one question on the way, so its socket always has room.
    RETURN_IF_ERROR(Send(socket, answer, passed, 0));
  }
}

}  // namespace tessera
