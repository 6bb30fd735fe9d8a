#include "protocol/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "protocol/base/background.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/small_file.h"
#include "protocol/base/start_program.h"
#include "protocol/channel/server_user.h"

namespace tessera {
namespace {

constexpr int kExitOk = 0;  // as ServiceExitCode (programs/service_options.h), which must not be included here
constexpr int kExitInternal = 1;

// The pause before the second child in a row, the third ...: twice as long each time.
constexpr int kPauseMsMin = 10;
constexpr int kPauseMsMax = 1000;

}  // namespace

Result<UniqueFd> OpenOneOf(const std::vector<std::string>& files, const std::string& path) {
  if (!path.empty() && std::ranges::find(files, path) != files.end()) return OpenSmallFile(path);
  return Status(StatusCode::kPermissionDenied, "cannot read '" + path + "': it is no file of this service");
}

Status Keeper::Prepare() {
  char program[4096];
  const ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program));
  if (bytes <= 0 || bytes == sizeof(program)) return Status::FromErrno("cannot find the file of this program", errno);
  program_.assign(program, static_cast<size_t>(bytes));
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal_number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&handled, signal_number);
  if (sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return Status::FromErrno("cannot block signals", errno);
  signal(SIGPIPE, SIG_IGN);
  signals_.reset(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return Status::FromErrno("cannot create a descriptor for signals", errno);
  return Status::Ok();
}

int Keeper::Run() {
  int ends = 0;  // children in a row that lived too short
  for (;;) {
    asked_for_ = false;
    ready_ns_ = 0;
    std::string how;
    Status started = Start();
    if (started.ok()) started = HandOver();
    if (options_.dial) (void)dialler_.Start().ok();  // if it fails, Dial() says why
    if (started.ok() || child_ >= 0) {
      if (!started.ok() && !child_ended_) kill(child_, SIGKILL);
      const int status = Attend();
      const bool first = !ready_;
      const bool ordered = WIFEXITED(status) && (WEXITSTATUS(status) == kExitOk || first);
      if (ordered || ending_) return WIFEXITED(status) ? WEXITSTATUS(status) : kExitOk;
      how = "the process that carries sessions " + DescribeWaitStatus(status);
    } else {
      how = started.message();
    }
    if (asked_for_) {
      LogInfo("the process that carries sessions is started anew, with {} sessions", sessions_.size());
      ends = 0;
      continue;
    }
    const bool lived = ready_ns_ != 0 && MonotonicNs() - ready_ns_ >= kLivedNs;
    ends = lived ? 1 : ends + 1;
    if (ends >= kEndsMax) {
      LogError("{}, {} times in a row: its {} sessions are over; start {} again, and report what stands above", how, ends,
               sessions_.size(), options_.name);
      return kExitInternal;
    }
    LogWarning("{}: another one goes on with its {} sessions", how, sessions_.size());
    if (!Pause(ends)) return kExitOk;
  }
}

bool Keeper::Pause(int ends) {
  if (ends > 1) {
    pollfd signalled = {signals_.get(), POLLIN, 0};
    poll(&signalled, 1, std::min(kPauseMsMin << std::min(ends - 2, 10), kPauseMsMax));
    TakeSignals();
  }
  return !ending_;
}

Status Keeper::Start() {
  Result<std::pair<UniqueFd, UniqueFd>> line = MakeSocketPair();
  if (!line.ok()) return line.status();
  child_ = -1;
  child_ended_ = false;
  std::vector<std::string> arguments = options_.arguments;
  arguments.insert(arguments.end(), {"--carry-fd", std::to_string(kPassedFd)});
  Result<pid_t> child = logs_.Start(program_, options_.name + " (carries)", options_.name, arguments, {line->second.get()});
  if (!child.ok()) return Status(child.status().code(), program_ + ": " + child.status().message());
  child_ = *child;
  line_ = std::move(line->first);
  line_open_ = true;
  return Status::Ok();
}

Status Keeper::HandOver() {
  const int fds[] = {options_.listener_fd, options_.owner_fd};
  const bool has_listener = fds[0] >= 0;
  const bool has_owner = fds[1] >= 0;
  const StartText start{has_listener, has_owner, listened_};
  RETURN_IF_ERROR(
      SendWord(line_.get(), {.word = KeeperWord::kStart, .session = next_number_, .value = static_cast<uint64_t>(getpid())},
               std::span(fds).subspan(has_listener ? 0 : 1, (has_listener ? 1 : 0) + (has_owner ? 1 : 0)), start.Text()));
  for (const auto& [number, session] : sessions_) {
    RETURN_IF_ERROR(
        SendSession(line_.get(), number, session.page.get(), session.socket.get(), session.files, session.peer_process.get()));
    for (const auto& [id, file] : session.segments) {
      const int fd = file.get();
      RETURN_IF_ERROR(SendWord(line_.get(), {.word = KeeperWord::kSegment, .session = number, .value = id}, std::span(&fd, 1)));
    }
  }
  return SendWord(line_.get(), {.word = KeeperWord::kAll});
}

int Keeper::Attend() {
  while (!child_ended_) {
    // poll() skips negative descriptors.
    std::vector<pollfd> ready = {{signals_.get(), POLLIN, 0},
                                 {line_open_ ? line_.get() : -1, POLLIN, 0},
                                 {owner_ended_ ? -1 : options_.owner_fd, POLLIN, 0}};
    const size_t first_log = ready.size();
    logs_.Watch(&ready);
    poll(ready.data(), ready.size(), logs_.PollTimeoutMs());
    logs_.Relay(std::span(ready).subspan(first_log));
    if (ready[0].revents != 0) TakeSignals();
    if (ready[1].revents != 0) TakeWords();
    if (ready[2].revents != 0) {
      owner_ended_ = true;
      LeaveStderr();
    }
  }
  TakeWords();  // what the child had said before its end
  logs_.Forget(child_);
  line_.reset();
  child_ = -1;
  return wait_status_;
}

void Keeper::TakeSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    // A terminal that is gone does not ask for another child.
    const bool terminal_gone = info.ssi_signo == SIGHUP && info.ssi_code == SI_KERNEL;
    switch (terminal_gone ? SIGTERM : static_cast<int>(info.ssi_signo)) {
      case SIGTERM:
      case SIGINT:
        ending_ = true;
        if (child_ >= 0 && !child_ended_) kill(child_, SIGTERM);
        break;
      case SIGHUP:
        asked_for_ = true;
        if (child_ >= 0 && !child_ended_) kill(child_, SIGKILL);
        break;
      default: break;
    }
  }
  if (child_ >= 0 && !child_ended_ && waitpid(child_, &wait_status_, WNOHANG) == child_) child_ended_ = true;
  dialler_.Reap();
}

void Keeper::TakeWords() {
  for (;;) {
    Result<ReceivedWord> word = ReceiveWord(line_.get(), 0);
    if (word.ok()) {
      Take(std::move(*word));
      continue;
    }
    switch (word.status().code()) {
      case StatusCode::kTimedOut: return;
      case StatusCode::kProtocolViolation:  // descriptors were lost on their way
        if (!std::exchange(told_shortage_, true)) {
          LogWarning("a session will not outlive the process that carries it ({}): raise the limit of open files (ulimit -n)",
                     word.status().message());
        }
        continue;
      default:
        line_open_ = false;  // the child is ending
        return;
    }
  }
}

void Keeper::Take(ReceivedWord word) {
  const KeeperMessage& message = word.message;
  const auto session = sessions_.find(message.session);
  switch (message.word) {
    case KeeperWord::kSession: {
      const uint64_t number = message.session;
      Result<KeptSession> kept = KeptSession::From(std::move(word));
      if (!kept.ok()) return LogWarning("{}", kept.status().message());
      next_number_ = std::max(next_number_, number + 1);
      sessions_[number] = std::move(*kept);
      return;
    }
    case KeeperWord::kSegment:
      if (session != sessions_.end() && word.fds.size() == 1) {
        session->second.segments[static_cast<uint32_t>(message.value)] = std::move(word.fds[0]);
      }
      return;
    case KeeperWord::kForgetSegment:
      if (session != sessions_.end()) session->second.segments.erase(static_cast<uint32_t>(message.value));
      return;
    case KeeperWord::kEnd:
      if (session != sessions_.end()) sessions_.erase(session);
      return;
    case KeeperWord::kReady:
      listened_ = word.text;
      ready_ns_ = MonotonicNs();
      if (!std::exchange(ready_, true) && options_.ready) options_.ready(listened_);
      return;
    case KeeperWord::kDial:
      if (word.fds.size() == 1) Dial(word.fds[0].get(), message.value);
      return;
    case KeeperWord::kOpen:
      if (word.fds.size() == 1) Open(word.text, word.fds[0].get());
      return;
    default: return;
  }
}

void Keeper::Open(const std::string& path, int socket) {
  Result<UniqueFd> file = OpenOneOf(options_.files, path);
  const int fd = file.ok() ? file->get() : -1;
  const KeeperMessage answer{.word = KeeperWord::kOpened, .value = static_cast<uint64_t>(file.status().code())};
  const Status sent = SendWord(socket, answer, std::span(&fd, file.ok() ? 1 : 0), file.status().message());
  if (!sent.ok()) LogDebug("a file was not handed over: {}", sent.message());
}

void Keeper::Dial(int socket, uint64_t deadline_ns) {
  if (options_.dial) return dialler_.Dial(socket, deadline_ns);
  Result<UniqueFd> connection = TryConnectUnix(options_.server_path);
  if (connection.ok()) {
    const Status trusted = CheckServerUser(connection->get(), options_.server_path);
    if (!trusted.ok()) connection = trusted;
  }
  SayDialled(socket, connection);
}

}  // namespace tessera
