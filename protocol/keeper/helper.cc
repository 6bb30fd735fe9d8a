#include "protocol/keeper/helper.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/small_file.h"
#include "protocol/base/start_program.h"
#include "protocol/keeper/bare_child.h"
#include "protocol/keeper/keeper.h"
#include "protocol/keeper/keeper_words.h"

namespace tessera {
namespace {

// How long opening a file may take, or an act.
constexpr uint64_t kFileTimeoutNs = 10'000'000'000;

Status NoneOfThese(const std::string& what) {
  return Status(StatusCode::kPermissionDenied, "'" + what + "' is none of what this service has others do");
}

void Say(int socket, KeeperWord word, const Result<UniqueFd>& result) {
  const int fd = result.ok() ? result.value().get() : -1;
  const KeeperMessage answer{.word = word, .value = static_cast<uint64_t>(result.status().code())};
  (void)SendWord(socket, answer, std::span(&fd, fd >= 0 ? 1 : 0), result.status().message()).ok();
}

Result<UniqueFd> DialPlace(const HelperOptions& options, const ReceivedWord& word) {
  const auto place = options.places.find(word.text);
  return place == options.places.end() ? NoneOfThese(word.text) : place->second(word.message.value);
}

Status DoAct(const HelperOptions& options, const ReceivedWord& word) {
  const auto act = options.acts.find(word.text);
  if (act == options.acts.end() || word.fds.size() != 2) return NoneOfThese(word.text);
  Result<std::string> text = ReadSmallFile(word.fds[1], "the text", options.text_bytes_max);
  return text.ok() ? act->second(*text) : text.status();
}

void Answer(const HelperOptions& options, const ReceivedWord& word) {
  const int to = word.fds.front().get();
  switch (word.message.word) {
    case KeeperWord::kOpen: return Say(to, KeeperWord::kOpened, OpenOneOf(options.files, word.text));
    case KeeperWord::kDial: return Say(to, KeeperWord::kDialled, DialPlace(options, word));
    case KeeperWord::kAct: {
      const Status acted = DoAct(options, word);
      return Say(to, KeeperWord::kActed, acted.ok() ? Result<UniqueFd>(UniqueFd()) : Result<UniqueFd>(acted));
    }
    default: return;  // closing the descriptors hangs up on whoever asked
  }
}

[[noreturn]] void Help(const HelperOptions& options, pid_t helped, int line) {
  // These signals end the helped process. They must not end the helper, or it would end first.
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, number);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  BecomeBare(helped, line);
  std::atomic<int> at_once{0};
  for (;;) {
    Result<ReceivedWord> received = ReceiveWord(kPassedFd, kNoDeadline);
    const StatusCode code = received.status().code();
    if (!received.ok() && code != StatusCode::kProtocolViolation && code != StatusCode::kVersionMismatch) _exit(0);
    if (!received.ok() || received->fds.empty()) continue;  // closing the descriptors hangs up on whoever asked
    const auto word = std::make_shared<const ReceivedWord>(std::move(*received));
    Status refused(StatusCode::kResourceExhausted, "too much is being done at once: try again later");
    if (at_once.fetch_add(1) < HelperLine::kAtOnceMax) {
      try {
        std::thread([&options, &at_once, word] {
          Answer(options, *word);
          at_once.fetch_sub(1);
        }).detach();
        continue;
      } catch (const std::system_error& error) {
        refused = Status::FromErrno("cannot start a thread", error.code().value());
      }
    }
    at_once.fetch_sub(1);
    Say(word->fds.front().get(), KeeperWord::kOpened, refused);
  }
}

// Asks and waits for the answer. `more` goes along with the socket for the answer; -1: nothing does.
Result<ReceivedWord> Ask(int line, const KeeperMessage& question, std::string_view text, int more, uint64_t deadline_ns) {
  Result<std::pair<UniqueFd, UniqueFd>> pair = MakeSocketPair();
  if (!pair.ok()) return pair.status();
  const int fds[] = {pair->second.get(), more};
  RETURN_IF_ERROR(SendWord(line, question, std::span(fds).first(more < 0 ? 1 : 2), text));
  pair->second.reset();
  return ReceiveWord(pair->first.get(), deadline_ns);
}

Status StatusIn(const ReceivedWord& answer) { return Status(static_cast<StatusCode>(answer.message.value), answer.text); }

Result<UniqueFd> DescriptorIn(Result<ReceivedWord> answer) {
  if (!answer.ok()) return answer.status();
  if (answer->fds.size() == 1) return std::move(answer->fds[0]);
  const Status why = StatusIn(*answer);
  return why.ok() ? Status(StatusCode::kUnavailable, "a descriptor was lost on its way") : why;
}

}  // namespace

Result<std::unique_ptr<HelperLine>> HelperLine::Start(HelperOptions options) {
  Result<std::pair<UniqueFd, UniqueFd>> line = MakeSocketPair();
  if (!line.ok()) return line.status();
  const pid_t helped = getpid();
  const pid_t helper = fork();
  if (helper < 0) return Status::FromErrno("cannot start a process that opens and connects", errno);
  if (helper == 0) Help(options, helped, line->second.get());
  return std::unique_ptr<HelperLine>(new HelperLine(std::move(line->first)));
}

Result<UniqueFd> HelperLine::OpenFile(const std::string& path) {
  return DescriptorIn(Ask(fd(), {.word = KeeperWord::kOpen}, path, -1, MonotonicNs() + kFileTimeoutNs));
}

Result<UniqueFd> HelperLine::Dial(const std::string& place, uint64_t deadline_ns) {
  return DescriptorIn(Ask(fd(), {.word = KeeperWord::kDial, .value = deadline_ns}, place, -1, deadline_ns + kLookupTimeoutNs));
}

Status HelperLine::Act(const std::string& act, std::string_view text) {
  const UniqueFd file(memfd_create("text", MFD_CLOEXEC));
  if (!file.valid()) return Status::FromErrno("cannot create a memory file", errno);
  if (pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return Status::FromErrno("cannot write a memory file", errno);
  Result<ReceivedWord> answer = Ask(fd(), {.word = KeeperWord::kAct}, act, file.get(), MonotonicNs() + kFileTimeoutNs);
  return answer.ok() ? StatusIn(*answer) : answer.status();
}

}  // namespace tessera
