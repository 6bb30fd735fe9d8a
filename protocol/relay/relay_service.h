// The process around relays, at either host: takes connections, gives each a thread that carries it, drops those that do not
// get on, ends in order. What a connection is carried to is its user's affair (client-stub/agent, server/gateway).
//
// Where strangers may connect, accepting never stops: who has proved nothing goes for a newer one (strangers.h), has no thread
// before its first byte, and costs the sessions nothing.
//
//   RelayService service({.sessions_max = 64});
//   RETURN_IF_ERROR(service.Prepare());
//   service.Run(listener.fd(), [&] { return listener.Accept(); }, [&](UniqueFd connection, RelaySession& session) {...});
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/shortage.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link.h"
#include "protocol/relay/relay.h"
#include "protocol/relay/strangers.h"

namespace tessera {

class RelayService;

// One connection, for the thread that carries it. What it uses and waits for is told here, so that the service can end the
// wait from its own thread.
class RelaySession {
 public:
  // From now on the connection has `ns` for its next step, else it is ended and timed_out() is true. kNoDeadline: for ever.
  void Within(uint64_t ns);
  bool timed_out() const { return timed_out_.load(); }
  // Whether it was ended so that a newer one has its place.
  bool made_room() const { return made_room_.load(); }
  // The peer has proved who it is: it does not go for strangers any more, but for others that are as far.
  void Prove();
  // Counts this connection as a session; false when there are sessions_max of them already. Once. It goes for nobody any more.
  bool Establish();
  // `socket` is what the thread waits for (shut down to end the wait; a descriptor of its own is kept), or `link` is. Null:
  // nothing any more.
  void Uses(int socket);
  void Uses(std::shared_ptr<Link> link);
  // Carries the session until it is over; over which links is the relay's affair from then on.
  Status Run(Relay& relay);

 private:
  friend class RelayService;
  explicit RelaySession(RelayService& service) : service_(service) {}
  // Ends whatever the thread waits for. In order, when it is a session: both sides are told.
  void End(bool in_order) EXCLUDES(mutex_);
  // Whether it is a session that waits for a link.
  bool WaitsForLink() EXCLUDES(mutex_);

  RelayService& service_;
  std::atomic<uint64_t> deadline_ns_;
  std::atomic<bool> timed_out_{false};
  std::atomic<bool> made_room_{false};
  std::atomic<bool> proved_{false};
  std::atomic<bool> established_{false};
  // Of the service's thread; the first one is not changed while this one's runs.
  Source source_;
  UniqueFd silent_;  // the connection, until it says something; then it has a thread
  uint64_t first_byte_ns_ = kNoDeadline;
  std::list<std::unique_ptr<RelaySession>>::iterator self_;
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  UniqueFd socket_ GUARDED_BY(mutex_);
  std::shared_ptr<Link> link_ GUARDED_BY(mutex_);
  Relay* relay_ GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

class RelayService {
 public:
  // Connections that are not sessions yet, where only processes of this user connect: more stay in the kernel's queue until one
  // of these has got on.
  static constexpr size_t kBeginningMax = 64;
  // Where strangers connect: those that have proved who they are and are no sessions yet. Beyond it the oldest go, when all
  // connections are looked at next (ten times a second).
  static constexpr size_t kProvedMax = 256;
  // Where strangers connect: for the first byte.
  static constexpr uint64_t kFirstByteNs = 2'000'000'000;
  // For a server to answer: it starts a driver, or has one process after another do so. A little more than the 90 s that a
  // client gives it, so that the client's own sentence is the one that is read.
  static constexpr uint64_t kWelcomeTimeoutNs = 95'000'000'000;
  // For sessions to end in order when the service ends. When that is because its owner has ended, those that wait for a link may
  // do so until their own grace time is over: then the server's host still hears of the end.
  static constexpr uint64_t kGraceNs = 2'000'000'000;

  struct Options {
    size_t sessions_max = 0;
    int owner_fd = -1;                             // readable once the process that the service is for has ended; -1: none
    uint64_t hello_timeout_ns = 10'000'000'000;    // for a connection to say what it wants
    std::optional<StrangerBounds> strangers = {};  // anybody may connect
    uint64_t segment_bytes_max = UINT64_MAX;       // of one session, as of Relay::BoundSegments()
    // Who has connected, for the log; with `strangers`.
    std::function<std::string(int connection)> describe = {};
  };
  using Accept = std::function<Result<UniqueFd>()>;                               // kTimedOut when nobody waits
  using Carry = std::function<void(UniqueFd connection, RelaySession& session)>;  // on a thread of its own

  explicit RelayService(const Options& options);
  // Blocks SIGTERM and SIGINT, which Run() waits for. Before the first thread.
  Status Prepare();
  // Begins with the sessions that the process before this one carried: each gets a relay, whose next link `supply` gives, and a
  // thread of its own for `carry`. Before Run(), once. `keeper` outlives this.
  void Adopt(KeeperLine& keeper, const Relay::Supply& supply,
             const std::function<void(Relay& relay, RelaySession& session)>& carry);
  // Carries what `accept` gives until a signal came or the owner ended, then ends everything. Once.
  void Run(int listener_fd, const Accept& accept, const Carry& carry);

  size_t sessions_max() const { return options_.sessions_max; }

 private:
  friend class RelaySession;
  // All that wait, as far as there is room. False: nobody waits any more.
  bool Take(const Accept& accept, const Carry& carry);
  // Gives a connection a thread that carries it.
  void Begin(RelaySession& session, UniqueFd connection, const Carry& carry);
  void Start(RelaySession& session, std::function<void()> carry);
  RelaySession& Enter();
  // One that has no thread, or whose thread has ended.
  void Erase(RelaySession& session) EXCLUDES(strangers_mutex_);
  // It is no stranger (any more).
  void LeaveStrangers(RelaySession& session) EXCLUDES(strangers_mutex_);
  // Ends a connection so that a newer one has its place.
  void MakeRoom(RelaySession& session);
  void MakeRoomOfProved();
  // Gives those a thread that have said something.
  void HearSilent(const Carry& carry);
  // Drops the connections that have said nothing and whose time for it is over; `all`: all of them.
  void DropSilent(bool all);
  // Joins the threads that have finished.
  void Join() EXCLUDES(over_mutex_);
  // Ends the connections whose time is over; not more often than it takes.
  void Sweep();
  void EndAll(bool owner_ended);
  size_t Beginning() const { return sessions_.size() - established_.load(); }

  const Options options_;
  Shortage accepting_{"accepting connections", "raise the limits of this process (ulimit -n -u)"};
  UniqueFd signals_;
  UniqueFd finished_;      // an eventfd: a thread has finished
  UniqueFd silent_ready_;  // an epoll of what is silent
  std::atomic<size_t> established_{0};
  std::list<std::unique_ptr<RelaySession>> sessions_;
  uint64_t swept_ns_ = 0;
  Mutex over_mutex_;
  std::vector<RelaySession*> over_ GUARDED_BY(over_mutex_);  // their threads are about to end
  Mutex strangers_mutex_;
  std::optional<Strangers> strangers_ GUARDED_BY(strangers_mutex_);  // where anybody may connect
};

}  // namespace tessera
