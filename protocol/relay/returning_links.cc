#include "protocol/relay/returning_links.h"

#include <chrono>
#include <utility>

#include "protocol/base/clock.h"

namespace tessera {

struct ReturningLinks::Session {
  Session(const ResumeToken& token, std::string peer, std::shared_ptr<Link> link)
      : token(token), peer(std::move(peer)), current(std::move(link)) {}

  const ResumeToken token;
  const std::string peer;
  Mutex mutex;
  ConditionVariable changed;
  std::shared_ptr<Link> current GUARDED_BY(mutex);  // the one that the session uses
  NextLink next GUARDED_BY(mutex);                  // waits for the session to take it
  bool stopped GUARDED_BY(mutex) = false;
};

class ReturningLinks::Supply : public LinkSupply {
 public:
  Supply(ReturningLinks& all, std::shared_ptr<Session> session) : all_(all), session_(std::move(session)) {}
  ~Supply() override {
    Stop();
    MutexLock lock(all_.mutex_);
    all_.sessions_.remove(session_);
  }

  Result<NextLink> Next(uint64_t deadline_ns) override {
    Session& session = *session_;
    MutexLock lock(session.mutex);
    session.current.reset();
    while (session.next.link == nullptr) {
      if (session.stopped) return Status(StatusCode::kUnavailable, "the session was stopped");
      const uint64_t now_ns = MonotonicNs();
      if (now_ns >= deadline_ns) return Status(StatusCode::kTimedOut, "no link has come back");
      session.changed.wait_for(session.mutex, std::chrono::nanoseconds(deadline_ns - now_ns));
    }
    session.current = session.next.link;
    return std::exchange(session.next, {});
  }

  void Stop() override {
    MutexLock lock(session_->mutex);
    session_->stopped = true;
    session_->current.reset();
    if (session_->next.link != nullptr) session_->next.link->Drop();
    session_->next = {};
    session_->changed.notify_all();
  }

 private:
  ReturningLinks& all_;
  const std::shared_ptr<Session> session_;
};

std::unique_ptr<LinkSupply> ReturningLinks::Admit(std::shared_ptr<Link> link, std::string peer, ResumeToken* token) {
  if (grace_ns_ == 0) return nullptr;
  *token = ResumeToken::Mint();
  return Enter(std::make_shared<Session>(*token, std::move(peer), std::move(link)));
}

std::unique_ptr<LinkSupply> ReturningLinks::Readmit(const ResumeToken& token, std::string peer) {
  return Enter(std::make_shared<Session>(token, std::move(peer), nullptr));
}

std::unique_ptr<LinkSupply> ReturningLinks::Enter(std::shared_ptr<Session> session) {
  {
    MutexLock lock(mutex_);
    sessions_.push_back(session);
  }
  return std::make_unique<Supply>(*this, std::move(session));
}

Status ReturningLinks::Return(std::shared_ptr<Link> link, std::vector<std::byte> said, const std::string& peer) {
  Result<ResumeState> state = ResumeState::Decode(said);
  if (!state.ok()) return state.status();
  const Status over(StatusCode::kNotFound,
                    "the session is over at the server's host: it had been without a link for too long, or "
                    "tessera-gateway was started anew; start the program again");
  std::shared_ptr<Session> found;
  {
    MutexLock lock(mutex_);
    // Compares with every session, so that the time taken reveals nothing.
    for (const auto& session : sessions_) {
      if (session->token.Equals(state->token)) found = session;
    }
  }
  if (found == nullptr || found->peer != peer) return over;
  MutexLock lock(found->mutex);
  if (found->stopped) return over;
  // Cuts the old link off. What the session still does with it fails. The new link is taken only when the receiving thread has
  // left the old one, so nothing from the old one is applied after what comes over the new one.
  if (found->current != nullptr) found->current->Drop();
  if (found->next.link != nullptr) found->next.link->Drop();
  found->next = {std::move(link), std::move(said)};
  found->changed.notify_all();
  return Status::Ok();
}

}  // namespace tessera
