#include "protocol/relay/relay_service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iterator>
#include <system_error>
#include <utility>

#include "protocol/base/background.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

// While there is a connection that may be late.
constexpr int kSweepMs = 500;
constexpr int kShortageMs = static_cast<int>(Shortage::kPauseNs / 1'000'000);

}  // namespace

// --- RelaySession ---

void RelaySession::Within(uint64_t ns) { deadline_ns_.store(ns == kNoDeadline ? kNoDeadline : MonotonicNs() + ns); }

bool RelaySession::Establish() {
  if (service_.established_.fetch_add(1) >= service_.options_.sessions_max) {
    service_.established_.fetch_sub(1);
    return false;
  }
  established_ = true;
  return true;
}

void RelaySession::Uses(int socket) {
  MutexLock lock(mutex_);
  socket_.reset(socket < 0 ? -1 : fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (ended_ && socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
}

void RelaySession::Uses(std::shared_ptr<Link> link) {
  MutexLock lock(mutex_);
  link_ = std::move(link);
  if (ended_ && link_ != nullptr) link_->Close();
}

Status RelaySession::Run(Relay& relay) {
  Within(kNoDeadline);
  {
    MutexLock lock(mutex_);
    relay_ = &relay;
    link_.reset();
    if (ended_) relay.Stop();
  }
  const Status why = relay.Run();
  MutexLock lock(mutex_);
  relay_ = nullptr;
  return why;
}

void RelaySession::End(bool in_order) {
  MutexLock lock(mutex_);
  ended_ = true;
  if (relay_ != nullptr) {
    if (in_order) return relay_->Stop();
    relay_->Abort();
  }
  if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
  if (link_ != nullptr) link_->Close();
}

bool RelaySession::WaitsForLink() {
  MutexLock lock(mutex_);
  return relay_ != nullptr && relay_->WaitsForLink();
}

// --- RelayService ---

Status RelayService::Prepare() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  if (sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return Status::FromErrno("cannot block signals", errno);
  signal(SIGPIPE, SIG_IGN);
  signals_.reset(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  finished_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signals_.valid() || !finished_.valid()) return Status::FromErrno("cannot create a descriptor for events", errno);
  return Status::Ok();
}

void RelayService::Run(int listener_fd, const Accept& accept, const Carry& carry) {
  bool signalled = false;
  bool owner_ended = false;
  while (!signalled && !owner_ended) {
    // poll() skips negative descriptors.
    const bool rests = accepting_.rests(MonotonicNs());
    const bool takes = Beginning() < kBeginningMax && !rests;
    pollfd ready[] = {{signals_.get(), POLLIN, 0},
                      {options_.owner_fd, POLLIN, 0},
                      {finished_.get(), POLLIN, 0},
                      {takes ? listener_fd : -1, POLLIN, 0}};
    const int timeout_ms = rests ? kShortageMs : Beginning() != 0 ? kSweepMs : -1;
    if (poll(ready, std::size(ready), timeout_ms) < 0 && errno != EINTR) poll(nullptr, 0, kShortageMs);
    Sweep();
    signalled = ready[0].revents != 0;
    owner_ended = ready[1].revents != 0;
    if (!signalled && !owner_ended && ready[3].revents != 0) Take(accept, carry);
  }
  EndAll(owner_ended && !signalled);
}

void RelayService::Take(const Accept& accept, const Carry& carry) {
  Result<UniqueFd> connection = accept();
  if (!connection.ok()) {
    if (connection.status().code() == StatusCode::kTimedOut) return accepting_.End();  // it has left
    if (connection.status().code() != StatusCode::kPermissionDenied) {
      return accepting_.Begin(connection.status(), MonotonicNs());
    }
    return LogStranger("turned away a connection: {}", connection.status().message());
  }
  accepting_.End();
  RelaySession& session = *sessions_.emplace_back(new RelaySession(*this));
  session.Within(options_.hello_timeout_ns);
  session.Uses(connection->get());
  // shared: std::function copies what it holds.
  const auto held = std::make_shared<UniqueFd>(std::move(*connection));
  Start(session, [&session, &carry, held] { carry(std::move(*held), session); });
}

void RelayService::Adopt(KeeperLine& keeper, const Relay::Supply& supply,
                         const std::function<void(Relay& relay, RelaySession& session)>& carry) {
  for (KeptSession& kept : keeper.TakeSessions()) {
    Result<std::unique_ptr<Relay>> adopted = Relay::Adopt(keeper, std::move(kept), supply);
    if (!adopted.ok()) LogWarning("a session is over: {}", adopted.status().message());
    if (!adopted.ok() || *adopted == nullptr) continue;
    RelaySession& session = *sessions_.emplace_back(new RelaySession(*this));
    session.Within(kNoDeadline);
    session.Establish();
    Start(session, [&session, carry, relay = std::shared_ptr<Relay>(std::move(*adopted))] { carry(*relay, session); });
  }
}

void RelayService::Start(RelaySession& session, std::function<void()> carry) {
  try {
    session.thread_ = std::thread([this, &session, carry = std::move(carry)]() mutable {
      carry();
      carry = nullptr;
      session.Uses(-1);
      session.over_.store(true);
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(finished_.get(), &one, sizeof(one));
    });
  } catch (const std::system_error& error) {
    LogWarning("turned away a connection: cannot start a thread ({}): raise the limits (ulimit -u)", error.what());
    if (session.established_) established_.fetch_sub(1);
    sessions_.pop_back();
  }
}

void RelayService::Sweep() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(finished_.get(), &count, sizeof(count));
  const uint64_t now_ns = MonotonicNs();
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    RelaySession& session = **at;
    if (session.over_.load()) {
      session.thread_.join();
      if (session.established_) established_.fetch_sub(1);
      at = sessions_.erase(at);
      continue;
    }
    if (now_ns >= session.deadline_ns_.load() && !session.timed_out_.exchange(true)) session.End(false);
    ++at;
  }
}

void RelayService::EndAll(bool owner_ended) {
  if (!sessions_.empty()) LogInfo("ending {} connections", sessions_.size());
  for (auto& session : sessions_) session->End(true);
  const uint64_t deadline_ns = MonotonicNs() + kGraceNs;
  bool patient = owner_ended;
  while (Sweep(), !sessions_.empty()) {
    if (MonotonicNs() >= deadline_ns) {
      if (patient) LeaveStderr();
      for (auto& session : sessions_) {
        if (!patient || !session->WaitsForLink()) session->End(false);
      }
    }
    pollfd ready[] = {{finished_.get(), POLLIN, 0}, {patient ? signals_.get() : -1, POLLIN, 0}};
    poll(ready, 2, kSweepMs);
    if (ready[1].revents != 0) patient = false;
  }
}

}  // namespace tessera
