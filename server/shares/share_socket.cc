#include "server/shares/share_socket.h"

#include <array>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/packet.h"

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
  // kPublish: why not. Ends with a zero.
  std::array<char, 256> sentence{};
};

}  // namespace

template <typename Question, typename Answer>
Status SocketShareBroker::Ask(const Question& question, int fd, Answer* answer, UniqueFd* passed) {
  if (!socket_.valid()) return Status(StatusCode::kUnavailable, "the server's table of shared objects does not answer");
  const uint64_t deadline_ns = MonotonicNs() + answer_ns_;
  Status status = SendPacket(socket_.get(), question, fd, deadline_ns);
  if (status.ok()) status = ReceivePacket(socket_.get(), deadline_ns, answer, passed);
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
  return code == StatusCode::kOk ? Status::Ok() : Status(code, answer.sentence.data());
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
    const Status received = ReceivePacket(socket, 0, &question, &fd);
    if (received.code() == StatusCode::kTimedOut) return Status::Ok();  // nothing waits
    RETURN_IF_ERROR(received);
    Answer answer;
    int passed = -1;
    switch (question.action) {
      case Action::kPublish: {
        const Status added = table.Add(session, question.token, question.facts, std::move(fd));
        answer.code = static_cast<uint32_t>(added.code());
        added.message().copy(answer.sentence.data(), answer.sentence.size() - 1);
        break;
      }
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
    RETURN_IF_ERROR(SendPacket(socket, answer, passed, 0));
  }
}

}  // namespace tessera
