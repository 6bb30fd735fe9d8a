#include "protocol/keeper/dialler.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/start_program.h"
#include "protocol/keeper/bare_child.h"
#include "protocol/keeper/keeper_words.h"

namespace tessera {
namespace {

[[noreturn]] void Serve(const DialFunction& dial, pid_t keeper, int line) {
  BecomeBare(keeper, line);
  std::atomic<int> at_once{0};
  for (;;) {
    Result<ReceivedWord> word = ReceiveWord(kPassedFd, kNoDeadline);
    if (!word.ok() && word.status().code() != StatusCode::kProtocolViolation) _exit(0);
    if (!word.ok() || word->fds.size() != 1) continue;  // closing the descriptors hangs up on whoever asked
    const auto asked = std::make_shared<const UniqueFd>(std::move(word->fds[0]));
    Status refused(StatusCode::kResourceExhausted, "too many connections are being made: try again later");
    if (at_once.fetch_add(1) < Dialler::kAtOnceMax) {
      try {
        std::thread([&dial, &at_once, asked, deadline_ns = word->message.value] {
          SayDialled(asked->get(), dial(deadline_ns));
          at_once.fetch_sub(1);
        }).detach();
        continue;
      } catch (const std::system_error& error) {
        refused = Status::FromErrno("cannot start a thread that connects", error.code().value());
      }
    }
    at_once.fetch_sub(1);
    SayDialled(asked->get(), refused);
  }
}

}  // namespace

void SayDialled(int socket, const Result<UniqueFd>& connection) {
  const int fd = connection.ok() ? connection.value().get() : -1;
  const KeeperMessage answer{.word = KeeperWord::kDialled, .value = static_cast<uint64_t>(connection.status().code())};
  const Status sent = SendWord(socket, answer, std::span(&fd, connection.ok() ? 1 : 0), connection.status().message());
  if (!sent.ok()) LogDebug("a connection to the server was not handed over: {}", sent.message());
}

Status Dialler::Start() {
  if (line_.valid()) return Status::Ok();
  Result<std::pair<UniqueFd, UniqueFd>> line = MakeSocketPair();
  if (!line.ok()) return line.status();
  if (process_ >= 0) {  // its line is closed, so it is about to end
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  const pid_t keeper = getpid();
  const pid_t process = fork();
  if (process < 0) return Status::FromErrno("cannot start a process that connects", errno);
  if (process == 0) Serve(dial_, keeper, line->second.get());
  process_ = process;
  line_ = std::move(line->first);
  return Status::Ok();
}

void Dialler::Dial(int socket, uint64_t deadline_ns) {
  Status asked = Status::Ok();
  for (int attempt = 0; attempt < 2; ++attempt) {
    asked = Start();
    if (asked.ok()) asked = SendWord(line_.get(), {.word = KeeperWord::kDial, .value = deadline_ns}, std::span(&socket, 1));
    if (asked.ok()) return;
    line_.reset();
  }
  SayDialled(socket, asked);
}

void Dialler::Reap() {
  if (process_ < 0 || waitpid(process_, nullptr, WNOHANG) != process_) return;
  process_ = -1;
  line_.reset();
}

}  // namespace tessera
