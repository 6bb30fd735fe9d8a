#include "protocol/rpc/tls_front.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/tls/tls_handshake.h"

namespace tessera {
namespace {

constexpr size_t kReceivedBytes = 16 * 1024;
constexpr uint64_t kShortageNs = 100'000'000;
constexpr int kTakenAtOnceMax = 64;  // before others are looked at again

// A timeout for poll(), rounded up.
int TimeoutMs(uint64_t until_ns) {
  if (until_ns == kNoDeadline) return -1;
  const uint64_t now_ns = MonotonicNs();
  return until_ns <= now_ns ? 0 : static_cast<int>(std::min<uint64_t>((until_ns - now_ns) / 1'000'000 + 1, 60'000));
}

}  // namespace

// A connection that has not proved a name yet.
class TlsFront::Newcomer {
 public:
  Newcomer(UniqueFd socket, std::string what, std::shared_ptr<const TlsIdentity> identity, uint64_t now_ns)
      : socket_(std::move(socket)),
        what_(std::move(what)),
        identity_(std::move(identity)),
        end_ns_(now_ns + kFirstByteNs),
        whole_ns_(now_ns + kHandshakeNs) {}

  pollfd Watched() const { return {socket_.get(), static_cast<short>(POLLIN | (outgoing_.empty() ? 0 : POLLOUT)), 0}; }
  uint64_t end_ns() const { return end_ns_; }
  bool is_done() const { return !is_parting_ && handshake_ && handshake_->done() && outgoing_.empty(); }
  // Its first message was right, and is answered.
  bool is_understood() const { return is_understood_; }
  Strangers::Id id() const { return reinterpret_cast<Strangers::Id>(this); }
  const TlsIdentity& identity() const { return *identity_; }
  TlsSession Finish() { return handshake_->Finish(); }
  UniqueFd TakeSocket() { return std::move(socket_); }

  // Sends `words` after what is still to be sent, and ignores all that it receives from now on.
  void Part(std::span<const std::byte> words, uint64_t now_ns) {
    is_parting_ = true;
    end_ns_ = now_ns + kPartingNs;
    outgoing_.insert(outgoing_.end(), words.begin(), words.end());
    Say();
  }
  // False: the connection is over.
  bool Hear(uint64_t now_ns) {
    std::array<std::byte, kReceivedBytes> bytes;
    const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    if (taken_ == 0) end_ns_ = whole_ns_;
    taken_ += static_cast<size_t>(got);
    if (is_parting_) return taken_ <= kHandshakeBytesMax;
    if (taken_ > kHandshakeBytesMax) return false;
    if (!handshake_) handshake_.emplace(TlsParties{.us = *identity_});
    const Status status = handshake_->Take(std::span(bytes).first(static_cast<size_t>(got)));
    const std::vector<std::byte> words = handshake_->Outgoing();
    if (!status.ok()) {
      LogDebug("a connection to {} is closed: {}", what_, status.message());
      Part(words, now_ns);
      return true;
    }
    is_understood_ = is_understood_ || !words.empty();
    outgoing_.insert(outgoing_.end(), words.begin(), words.end());
    return Say();
  }
  // False: nothing can be sent any more.
  bool Say() {
    while (!outgoing_.empty()) {
      const ssize_t sent = send(socket_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      outgoing_.erase(outgoing_.begin(), outgoing_.begin() + sent);
    }
    // Closing with unread bytes would reset the connection and discard what was sent: so Hear() goes on reading.
    if (is_parting_) shutdown(socket_.get(), SHUT_WR);
    return true;
  }

 private:
  UniqueFd socket_;
  const std::string what_;
  const std::shared_ptr<const TlsIdentity> identity_;
  std::optional<TlsHandshake> handshake_;  // from the first byte on: who is silent costs a descriptor
  std::vector<std::byte> outgoing_;
  size_t taken_ = 0;
  bool is_parting_ = false;
  bool is_understood_ = false;
  uint64_t end_ns_;
  const uint64_t whole_ns_;
};

Result<std::unique_ptr<TlsFront>> TlsFront::Make(UniqueFd listener, std::string what, Proved proved) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return Status::FromErrno("cannot create a descriptor for events", errno);
  return std::unique_ptr<TlsFront>(new TlsFront(std::move(listener), std::move(wake), std::move(what), std::move(proved)));
}

TlsFront::TlsFront(UniqueFd listener, UniqueFd wake, std::string what, Proved proved)
    : listener_(std::move(listener)), wake_(std::move(wake)), what_(std::move(what)), proved_(std::move(proved)) {}

TlsFront::~TlsFront() = default;

void TlsFront::Use(std::shared_ptr<const TlsIdentity> identity) {
  {
    MutexLock lock(mutex_);
    identity_ = std::move(identity);
  }
  eventfd_write(wake_.get(), 1);
}

std::shared_ptr<const TlsIdentity> TlsFront::identity() {
  MutexLock lock(mutex_);
  return identity_;
}

void TlsFront::Run() {
  pthread_setname_np(pthread_self(), "tessera-tls");
  uint64_t accepts_ns = 0;  // no accept before this time: descriptors had run out
  for (;;) {
    const uint64_t begin_ns = MonotonicNs();
    const bool accepts = identity() != nullptr && begin_ns >= accepts_ns;
    std::vector<pollfd> ready = {{wake_.get(), POLLIN, 0}, {accepts ? listener_.get() : -1, POLLIN, 0}};
    uint64_t until_ns = accepts || accepts_ns <= begin_ns ? kNoDeadline : accepts_ns;
    const size_t first_newcomer = ready.size();
    for (const Newcomer& newcomer : newcomers_) {
      ready.push_back(newcomer.Watched());
      until_ns = std::min(until_ns, newcomer.end_ns());
    }
    const size_t first_pipe = ready.size();
    for (const TlsPipe& pipe : pipes_) {
      pipe.Watch(&ready);
      until_ns = std::min(until_ns, pipe.again_ns());
    }
    poll(ready.data(), ready.size(), TimeoutMs(until_ns));
    const uint64_t now_ns = MonotonicNs();
    const std::span<const pollfd> all(ready);
    if (ready[0].revents != 0) {
      eventfd_t count = 0;
      eventfd_read(wake_.get(), &count);
    }
    size_t at = first_pipe;
    std::erase_if(pipes_, [&](TlsPipe& pipe) {
      const std::span<const pollfd> watched = all.subspan(at, TlsPipe::kWatched);
      at += TlsPipe::kWatched;
      const bool is_ready = std::ranges::any_of(watched, [](const pollfd& each) { return each.revents != 0; });
      return (is_ready || pipe.again_ns() <= now_ns) && !pipe.Move(watched, now_ns);
    });
    at = first_newcomer;
    std::erase_if(newcomers_, [&](Newcomer& newcomer) {
      if (Tend(newcomer, ready[at++].revents, now_ns)) return false;
      strangers_.Leave(newcomer.id());
      return true;
    });
    // Without free descriptors the loop would spin.
    if (ready[1].revents != 0 && !Accept()) accepts_ns = now_ns + kShortageNs;
  }
}

bool TlsFront::Accept() {
  for (int taken = 0; taken < kTakenAtOnceMax; ++taken) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return true;
      if (const std::optional<Strangers::Id> goes = strangers_.GiveUpOldest()) Drop(*goes);
      return false;
    }
    const Source source = Source::Of(socket.get());
    const Newcomer& newcomer = newcomers_.emplace_back(std::move(socket), what_, identity(), MonotonicNs());
    if (const std::optional<Strangers::Id> goes = strangers_.Come(newcomer.id(), source)) Drop(*goes);
  }
  return true;
}

void TlsFront::Drop(Strangers::Id id) {
  LogDebug("of {} connections to {} that have proved nothing the oldest is closed", newcomers_.size(), what_);
  newcomers_.remove_if([&](const Newcomer& newcomer) { return newcomer.id() == id; });
}

bool TlsFront::Tend(Newcomer& newcomer, short ready, uint64_t now_ns) {
  if ((ready & POLLOUT) != 0 && !newcomer.Say()) return false;
  if ((ready & ~POLLOUT) != 0 && !newcomer.is_done() && !newcomer.Hear(now_ns)) return false;
  if (newcomer.is_understood()) strangers_.Understood(newcomer.id());
  if (newcomer.is_done()) Admit(newcomer, now_ns);
  return newcomer.Watched().fd >= 0 && now_ns < newcomer.end_ns();
}

void TlsFront::Admit(Newcomer& newcomer, uint64_t now_ns) {
  const TlsSession session = newcomer.Finish();
  if (!newcomer.identity().Allows(session.peer)) {
    LogDebug("a connection to {} is closed: {} is not allowed", what_, Printable(session.peer.name));
    return newcomer.Part(SealedAccessDenied(session), now_ns);
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    LogWarning("a connection to {} is closed: {}", what_, Status::FromErrno("cannot make a pair of sockets", errno).message());
    return newcomer.TakeSocket().reset();
  }
  UniqueFd ours(ends[0]);
  if (!proved_(UniqueFd(ends[1]), session.peer)) return newcomer.TakeSocket().reset();
  TlsPipe& pipe = pipes_.emplace_back(newcomer.TakeSocket(), std::move(ours), session);
  if (!pipe.Move({}, now_ns)) pipes_.pop_back();
}

}  // namespace tessera
