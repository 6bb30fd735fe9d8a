#include "server/daemon/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "server/daemon/child_process.h"
#include "server/daemon/exit_codes.h"

namespace tessera {

Supervisor::Supervisor(const Options& options, UnixListener listener) : options_(options), listener_(std::move(listener)) {}

Status Supervisor::Prepare() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  sigaddset(&handled, SIGCHLD);
  if (sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return Status::FromErrno("cannot block signals", errno);
  signals_.reset(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return Status::FromErrno("cannot create a signal descriptor", errno);
  return Status::Ok();
}

int Supervisor::Run() {
  while (phase_ == Phase::kServing || !workers_.empty()) {
    pollfd ready[2] = {{signals_.get(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    const nfds_t count = phase_ == Phase::kServing ? 2 : 1;
    if (poll(ready, count, PollTimeoutMs()) < 0 && errno != EINTR) {
      LogError("cannot wait for clients: errno {}", errno);
      Advance(Phase::kTerminating);
    }
    HandleSignals();
    Reap();
    if (phase_ == Phase::kServing && (ready[1].revents & POLLIN) != 0) AcceptClients();
    if (phase_ != Phase::kServing && MonotonicNs() >= deadline_ns_) {
      Advance(phase_ == Phase::kDraining ? Phase::kTerminating : Phase::kKilling);
    }
  }
  LogInfo("all sessions have ended");
  return kExitOk;
}

void Supervisor::AcceptClients() {
  for (;;) {
    Result<UniqueFd> connection = listener_.Accept();
    if (!connection.ok()) {
      if (connection.status().code() == StatusCode::kTimedOut) return;  // nobody waits
      LogWarning("turned away a client: {}", connection.status().message());
      if (connection.status().code() == StatusCode::kPermissionDenied) continue;
      return;
    }
    const Result<PeerCredentials> peer = PeerOf(connection->get());
    const pid_t client_pid = peer.ok() ? peer.value().pid : -1;
    if (workers_.size() >= options_.sessions_max) {
      Refuse(connection->get(), Status(StatusCode::kResourceExhausted,
                                       fmt::format("the server has {} sessions, its limit: raise --max-sessions of tesserad",
                                                   workers_.size())));
      LogWarning("turned away the client with pid {}: {} sessions is the limit (--max-sessions)", client_pid,
                 options_.sessions_max);
      continue;
    }
    StartWorker(std::move(connection).value(), client_pid);
  }
}

void Supervisor::StartWorker(UniqueFd connection, pid_t client_pid) {
  const uint64_t session = next_session_++;
  const std::vector<std::string> arguments = {
      "--worker-fd", std::to_string(kPassedFd), "--session", std::to_string(session), "--parent-pid", std::to_string(getpid()),
      "--driver", options_.driver, "--log", options_.log_word, "--priorities", options_.priorities};
  Result<pid_t> pid = StartSelf(arguments, connection.get());
  if (!pid.ok()) {
    LogError("session {} did not start: {}", session, pid.status().message());
    return;
  }
  workers_.emplace(*pid, Worker{session, client_pid, MonotonicNs()});
  LogInfo("session {} opened by pid {}, worker pid {}, {} sessions", session, client_pid, *pid, workers_.size());
}

void Supervisor::Reap() {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
    if (pid <= 0) return;
    const auto found = workers_.find(pid);
    if (found == workers_.end()) continue;
    const Worker worker = found->second;
    workers_.erase(found);
    const uint64_t seconds = (MonotonicNs() - worker.started_ns) / 1'000'000'000;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitOk) {
      LogInfo("session {} of pid {} closed after {} s", worker.session, worker.client_pid, seconds);
    } else if (phase_ == Phase::kServing || (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) != SIGTERM)) {
      LogWarning("session {} of pid {} ended after {} s: worker {} {}", worker.session, worker.client_pid, seconds, pid,
                 DescribeWaitStatus(wait_status));
    }
  }
}

void Supervisor::HandleSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) continue;  // Reap() looks at all children anyway
    // A second signal of these does not wait for the grace period.
    Advance(phase_ == Phase::kServing ? Phase::kDraining : Phase::kTerminating);
  }
}

void Supervisor::Advance(Phase phase) {
  if (phase < phase_ || (phase == phase_ && phase != Phase::kKilling)) return;
  phase_ = phase;
  const uint64_t now_ns = MonotonicNs();
  switch (phase) {
    case Phase::kServing:
      break;
    case Phase::kDraining:
      listener_.Close();
      LogInfo("ending: no new sessions, {} sessions get {} s", workers_.size(), options_.grace_s);
      deadline_ns_ = now_ns + options_.grace_s * uint64_t{1'000'000'000};
      break;
    case Phase::kTerminating:
      listener_.Close();
      if (!workers_.empty()) LogInfo("ending {} sessions", workers_.size());
      SignalWorkers(SIGTERM);
      deadline_ns_ = now_ns + kTermWaitNs;
      break;
    case Phase::kKilling:
      SignalWorkers(SIGKILL);
      deadline_ns_ = now_ns + kTermWaitNs;
      break;
  }
}

void Supervisor::SignalWorkers(int number) {
  for (const auto& [pid, worker] : workers_) kill(pid, number);
}

int Supervisor::PollTimeoutMs() const {
  if (phase_ == Phase::kServing) return -1;
  const uint64_t now_ns = MonotonicNs();
  return now_ns >= deadline_ns_ ? 0 : static_cast<int>(std::min<uint64_t>((deadline_ns_ - now_ns) / 1'000'000 + 1, 60'000));
}

}  // namespace tessera
