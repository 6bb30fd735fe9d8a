#include "protocol/relay/relay_service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "protocol/base/background.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

// How long poll() waits while there is a connection that may be late.
constexpr int kSweepMs = 500;
// How many connections are accepted in a row before others are looked at again.
constexpr int kTakenAtOnceMax = 64;
// The least time between two looks at all connections, however much happens.
constexpr uint64_t kSweepNsMin = 100'000'000;

Strangers::Id IdOf(const RelaySession& session) { return reinterpret_cast<Strangers::Id>(&session); }
RelaySession& SessionOf(Strangers::Id id) { return *reinterpret_cast<RelaySession*>(id); }
constexpr int kShortageMs = static_cast<int>(Shortage::kPauseNs / 1'000'000);

}  // namespace

// --- RelaySession ---

void RelaySession::Within(uint64_t ns) { deadline_ns_.store(ns == kNoDeadline ? kNoDeadline : MonotonicNs() + ns); }

bool RelaySession::Establish() {
  if (service_.established_.fetch_add(1) >= service_.options_.sessions_max) {
    service_.established_.fetch_sub(1);
    return false;
  }
  established_.store(true);
  service_.LeaveStrangers(*this);
  MutexLock lock(service_.strangers_mutex_);
  if (service_.strangers_ && source_.HasAddress()) service_.strangers_->SessionBegins(source_);
  return true;
}

Status RelaySession::TakeMemory(uint64_t bytes) {
  if (bytes <= service_.options_.segment_bytes_max && service_.budget_.Take(bytes)) {
    memory_bytes_ = bytes;
    return Status::Ok();
  }
  const auto mib = [](uint64_t of) { return std::to_string(of >> 20) + " MiB"; };
  return Status(StatusCode::kResourceExhausted,
                "a session needs " + mib(bytes) + " of the gateway's memory. Each may have " +
                    mib(service_.options_.segment_bytes_max) + " and all together " + mib(service_.budget_.bytes_max()) +
                    ", parts of what the gateway's control group may have: end others, or raise the limit of that group");
}

void RelaySession::BeUnderstood() {
  MutexLock lock(service_.strangers_mutex_);
  if (service_.strangers_) service_.strangers_->Understood(IdOf(*this));
}

void RelaySession::Prove() {
  proved_.store(true);
  service_.LeaveStrangers(*this);
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
  relay.BoundSegments(service_.options_.segment_bytes_max, &service_.budget_);
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

RelayService::RelayService(const Options& options) : options_(options), budget_(options.segment_bytes_in_all) {
  MutexLock lock(strangers_mutex_);
  if (options.strangers) strangers_.emplace(*options.strangers);
}

Status RelayService::Prepare() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  if (sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return Status::FromErrno("cannot block signals", errno);
  signal(SIGPIPE, SIG_IGN);
  signals_.reset(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  finished_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  silent_ready_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!signals_.valid() || !finished_.valid() || !silent_ready_.valid())
    return Status::FromErrno("cannot create a descriptor for events", errno);
  return Status::Ok();
}

void RelayService::Run(int listener_fd, const Accept& accept, const Carry& carry) {
  bool signalled = false;
  bool owner_ended = false;
  while (!signalled && !owner_ended) {
    const bool rests = accepting_.rests(MonotonicNs());
    const bool takes = !rests && (options_.strangers || Beginning() < kBeginningMax);
    // poll() skips negative descriptors.
    pollfd ready[] = {{signals_.get(), POLLIN, 0},
                      {options_.owner_fd, POLLIN, 0},
                      {finished_.get(), POLLIN, 0},
                      {silent_ready_.get(), POLLIN, 0},
                      {takes ? listener_fd : -1, POLLIN, 0}};
    const int timeout_ms = rests ? kShortageMs : Beginning() != 0 ? kSweepMs : -1;
    if (poll(ready, std::size(ready), timeout_ms) < 0 && errno != EINTR) poll(nullptr, 0, kShortageMs);
    if (ready[3].revents != 0) HearSilent(carry);
    Join();
    Sweep();
    signalled = ready[0].revents != 0;
    owner_ended = ready[1].revents != 0;
    if (signalled || owner_ended || ready[4].revents == 0) continue;
    for (int taken = 0; taken < kTakenAtOnceMax && (options_.strangers || Beginning() < kBeginningMax); ++taken) {
      if (!Take(accept, carry)) break;
    }
  }
  EndAll(owner_ended && !signalled);
}

bool RelayService::Take(const Accept& accept, const Carry& carry) {
  Result<UniqueFd> connection = accept();
  if (!connection.ok()) {
    if (connection.status().code() == StatusCode::kPermissionDenied) {
      LogStranger("turned away a connection: {}", connection.status().message());
      return true;
    }
    if (connection.status().code() == StatusCode::kTimedOut) {
      accepting_.End();  // nobody waits, or whoever waited has left
      return false;
    }
    accepting_.Begin(connection.status(), MonotonicNs());
    std::optional<Strangers::Id> goes;
    {
      MutexLock lock(strangers_mutex_);
      if (strangers_) goes = strangers_->GiveUpOldest();
    }
    if (goes) MakeRoom(SessionOf(*goes));
    return false;
  }
  accepting_.End();
  RelaySession& session = Enter();
  session.Within(options_.hello_timeout_ns);
  if (!options_.strangers) {
    Begin(session, std::move(*connection), carry);
    return true;
  }
  session.source_ = Source::Of(connection->get());
  std::optional<Strangers::Id> goes;
  {
    MutexLock lock(strangers_mutex_);
    goes = strangers_->Come(IdOf(session), session.source_);
  }
  if (goes) MakeRoom(SessionOf(*goes));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &session;
  const bool heard =
      session.source_.HasAddress() && epoll_ctl(silent_ready_.get(), EPOLL_CTL_ADD, connection->get(), &event) == 0;
  if (heard) {
    session.first_byte_ns_ = MonotonicNs() + std::min(kFirstByteNs, options_.hello_timeout_ns);
    session.silent_ = std::move(*connection);
  } else {
    Begin(session, std::move(*connection), carry);  // its descriptor only stands for a connection: there is nothing to read
  }
  return true;
}

void RelayService::HearSilent(const Carry& carry) {
  epoll_event events[kTakenAtOnceMax];
  const int count = epoll_wait(silent_ready_.get(), events, kTakenAtOnceMax, 0);
  for (int i = 0; i < count; ++i) {
    RelaySession& session = *static_cast<RelaySession*>(events[i].data.ptr);
    epoll_ctl(silent_ready_.get(), EPOLL_CTL_DEL, session.silent_.get(), nullptr);
    // Whoever has only left needs no thread.
    std::byte first{};
    const ssize_t got = recv(session.silent_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      LogStranger("turned away {}: it connected, said nothing and left", options_.describe(session.silent_.get()));
      Erase(session);
      continue;
    }
    Begin(session, std::move(session.silent_), carry);
  }
}

void RelayService::Begin(RelaySession& session, UniqueFd connection, const Carry& carry) {
  session.Uses(connection.get());
  // A shared pointer, since std::function copies what it holds.
  const auto held = std::make_shared<UniqueFd>(std::move(connection));
  Start(session, [&session, &carry, held] { carry(std::move(*held), session); });
}

RelaySession& RelayService::Enter() {
  const auto at = sessions_.insert(sessions_.end(), std::unique_ptr<RelaySession>(new RelaySession(*this)));
  (*at)->self_ = at;
  return **at;
}

void RelayService::Erase(RelaySession& session) {
  LeaveStrangers(session);
  budget_.GiveBack(session.memory_bytes_);
  if (session.established_.load()) {
    established_.fetch_sub(1);
    MutexLock lock(strangers_mutex_);
    if (strangers_ && session.source_.HasAddress()) strangers_->SessionEnds(session.source_);
  }
  sessions_.erase(session.self_);
}

// --- Strangers ---

void RelayService::LeaveStrangers(RelaySession& session) {
  MutexLock lock(strangers_mutex_);
  if (strangers_) strangers_->Leave(IdOf(session));
}

void RelayService::MakeRoom(RelaySession& session) {
  session.made_room_.store(true);
  if (!session.silent_.valid()) return session.End(false);
  if (LogEnabled(LogLevel::kWarning)) {
    LogStranger("turned away {}: it said nothing, and more connect than have a place", options_.describe(session.silent_.get()));
  }
  Erase(session);
}

void RelayService::MakeRoomOfProved() {
  std::vector<RelaySession*> proved;  // oldest first
  for (const auto& session : sessions_) {
    if (session->proved_.load() && !session->established_.load() && !session->made_room_.load()) proved.push_back(session.get());
  }
  for (size_t i = 0; i + kProvedMax < proved.size(); ++i) MakeRoom(*proved[i]);
}

void RelayService::DropSilent(bool all) {
  const uint64_t now_ns = MonotonicNs();
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    RelaySession& session = **at++;
    if (!session.silent_.valid() || (!all && now_ns < session.first_byte_ns_)) continue;
    if (!all) LogStranger("turned away {}: it connected and said nothing", options_.describe(session.silent_.get()));
    Erase(session);
  }
}

void RelayService::Adopt(KeeperLine& keeper, const Relay::Supply& supply,
                         const std::function<void(Relay& relay, RelaySession& session)>& carry) {
  for (KeptSession& kept : keeper.TakeSessions()) {
    Result<std::unique_ptr<Relay>> adopted = Relay::Adopt(keeper, std::move(kept), supply);
    if (!adopted.ok()) LogWarning("a session is over: {}", adopted.status().message());
    if (!adopted.ok() || *adopted == nullptr) continue;
    RelaySession& session = Enter();
    session.Within(kNoDeadline);
    session.Establish();
    session.memory_bytes_ = (*adopted)->channel_bytes();
    budget_.Have(session.memory_bytes_);
    Start(session, [&session, carry, relay = std::shared_ptr<Relay>(std::move(*adopted))] { carry(*relay, session); });
  }
}

void RelayService::Start(RelaySession& session, std::function<void()> carry) {
  try {
    session.thread_ = std::thread([this, &session, carry = std::move(carry)]() mutable {
      carry();
      carry = nullptr;
      session.Uses(-1);
      {
        MutexLock lock(over_mutex_);
        over_.push_back(&session);
      }
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(finished_.get(), &one, sizeof(one));
    });
  } catch (const std::system_error& error) {
    LogStranger("turned away a connection: cannot start a thread ({}): raise the limits (ulimit -u)", error.what());
    Erase(session);
  }
}

void RelayService::Join() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(finished_.get(), &count, sizeof(count));
  std::vector<RelaySession*> over;
  {
    MutexLock lock(over_mutex_);
    over.swap(over_);
  }
  for (RelaySession* session : over) {
    session->thread_.join();
    Erase(*session);
  }
}

void RelayService::Sweep() {
  const uint64_t now_ns = MonotonicNs();
  if (now_ns < swept_ns_ + kSweepNsMin) return;
  swept_ns_ = now_ns;
  DropSilent(false);
  MakeRoomOfProved();
  for (const auto& session : sessions_) {
    const bool late = !session->silent_.valid() && now_ns >= session->deadline_ns_.load();
    if (late && !session->timed_out_.exchange(true)) session->End(false);
  }
}

void RelayService::EndAll(bool owner_ended) {
  DropSilent(true);
  Join();
  if (!sessions_.empty()) LogInfo("ending {} connections", sessions_.size());
  for (auto& session : sessions_) session->End(true);
  const uint64_t deadline_ns = MonotonicNs() + kGraceNs;
  bool patient = owner_ended;
  while (Join(), Sweep(), !sessions_.empty()) {
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
