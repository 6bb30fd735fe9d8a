#include "protocol/keeper/keeper_line.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// How long the keeper may take to hand everything over. It does nothing else meanwhile.
constexpr uint64_t kTakeOverTimeoutNs = 20'000'000'000;
// How long the keeper may take to open a file. It does little else.
constexpr uint64_t kOpenTimeoutNs = 5'000'000'000;
// The pause between two attempts to connect to a server that has no room for connections.
constexpr int kDialPauseMs = 10;

}  // namespace

Result<std::unique_ptr<KeeperLine>> KeeperLine::Open(UniqueFd socket) {
  std::unique_ptr<KeeperLine> line(new KeeperLine(std::move(socket)));
  if (const Status status = line->TakeOver(); !status.ok()) return status;
  return line;
}

Status KeeperLine::TakeOver() {
  const uint64_t deadline_ns = MonotonicNs() + kTakeOverTimeoutNs;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    Result<ReceivedWord> word = ReceiveWord(socket_.get(), deadline_ns);
    if (!word.ok()) return word.status();
    switch (word->message.word) {
      case KeeperWord::kStart: {
        if (getppid() != static_cast<pid_t>(word->message.value)) {
          return Status(StatusCode::kUnavailable, "the process that keeps sessions has ended");  // ended before prctl()
        }
        next_number_.store(word->message.session);
        const StartText start = StartText::From(word->text);
        listened_ = start.listened;
        size_t next = 0;
        if (start.has_listener && next < word->fds.size()) listener_ = std::move(word->fds[next++]);
        if (start.has_owner && next < word->fds.size()) owner_ = std::move(word->fds[next++]);
        break;
      }
      case KeeperWord::kSession: {
        Result<KeptSession> session = KeptSession::From(std::move(*word));
        if (!session.ok()) return session.status();
        sessions_.push_back(std::move(*session));
        break;
      }
      case KeeperWord::kSegment:
        if (sessions_.empty() || sessions_.back().number != word->message.session || word->fds.size() != 1) {
          return Status(StatusCode::kInternal, "a segment was handed over that belongs to no session");
        }
        sessions_.back().segments[static_cast<uint32_t>(word->message.value)] = std::move(word->fds[0]);
        break;
      case KeeperWord::kAll: return Status::Ok();
      default: return Status(StatusCode::kInternal, "the process that keeps sessions said something that is not known here");
    }
  }
}

void KeeperLine::Tell(const KeeperMessage& message, std::string_view text) {
  const Status sent = SendWord(socket_.get(), message, {}, text);
  if (!sent.ok()) LogDebug("the process that keeps sessions was not told: {}", sent.message());
}

void KeeperLine::SayReady(const std::string& where) { Tell({.word = KeeperWord::kReady}, where); }

Result<UniqueFd> KeeperLine::Ask(const KeeperMessage& question, std::string_view text, uint64_t deadline_ns) {
  Result<std::pair<UniqueFd, UniqueFd>> pair = MakeSocketPair();
  if (!pair.ok()) return pair.status();
  const int theirs = pair->second.get();
  RETURN_IF_ERROR(SendWord(socket_.get(), question, std::span(&theirs, 1), text));
  pair->second.reset();
  Result<ReceivedWord> answer = ReceiveWord(pair->first.get(), deadline_ns);
  if (!answer.ok()) return answer.status();
  if (answer->fds.size() == 1) return std::move(answer->fds[0]);
  return Status(static_cast<StatusCode>(answer->message.value), answer->text);
}

Result<UniqueFd> KeeperLine::OpenFile(const std::string& path) {
  return Ask({.word = KeeperWord::kOpen}, path, MonotonicNs() + kOpenTimeoutNs);
}

Result<UniqueFd> KeeperLine::Dial() {
  const uint64_t deadline_ns = MonotonicNs() + kConnectSecondsMax * uint64_t{1'000'000'000};
  for (;;) {
    Result<UniqueFd> server = Ask({.word = KeeperWord::kDial, .value = deadline_ns}, {}, deadline_ns);
    if (server.ok() || server.status().code() != StatusCode::kTimedOut || MonotonicNs() >= deadline_ns) return server;
    poll(nullptr, 0, kDialPauseMs);
  }
}

Result<UniqueFd> KeeperLine::Dial(uint64_t deadline_ns) {
  return Ask({.word = KeeperWord::kDial, .value = deadline_ns}, {}, deadline_ns + kLookupTimeoutNs);
}

Status KeeperLine::KeepSession(uint64_t number, int page, const Channel& channel, const Channel::Files& files) {
  return SendSession(socket_.get(), number, page, channel.socket(), files, channel.peer_process());
}

Status KeeperLine::KeepSegment(uint64_t session, uint32_t id, int fd) {
  return SendWord(socket_.get(), {.word = KeeperWord::kSegment, .session = session, .value = id}, std::span(&fd, 1));
}

void KeeperLine::ForgetSegment(uint64_t session, uint32_t id) {
  Tell({.word = KeeperWord::kForgetSegment, .session = session, .value = id});
}

void KeeperLine::EndSession(uint64_t session) { Tell({.word = KeeperWord::kEnd, .session = session}); }

}  // namespace tessera
